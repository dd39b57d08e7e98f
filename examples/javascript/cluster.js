// A cluster for a suite: `pilothouse up` as a child process, in memory, on a free port.

import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Start a cluster. `flags` are those of `pilothouse up`; PILOTHOUSE names the program, if it is not on the PATH. */
export async function startCluster(...flags) {
  const directory = await mkdtemp(join(tmpdir(), "pilothouse-"));
  const kubeconfig = join(directory, "kubeconfig");
  const child = spawn(process.env.PILOTHOUSE ?? "pilothouse", ["up", "--port=0", `--kubeconfig=${kubeconfig}`, ...flags]);
  await new Promise((resolve, reject) => {
    let printed = "";
    child.stderr.on("data", (text) => (printed += text));
    child.stdout.on("data", (text) => {
      printed += text;
      if (printed.includes("pilothouse is ready")) resolve();
    });
    child.on("error", reject);
    child.on("exit", (code) => reject(new Error(`pilothouse ended with ${code}: ${printed}`)));
  });
  return {
    kubeconfig,
    async stop() {
      const ended = new Promise((resolve) => child.on("exit", resolve));
      child.kill("SIGTERM");
      await ended;
      await rm(directory, { recursive: true });
    },
  };
}
