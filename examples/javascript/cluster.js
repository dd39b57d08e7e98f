// A cluster for a suite: `pilothouse up` as a child process, in memory, on a free port.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";

// A CI service ends a suite with SIGTERM, for example after a timeout, and `node --test` the processes of its files.
// Without a handler the handlers of "exit" would not run, and the directory would remain.
for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"]) {
  process.once(signal, () => process.exit(128 + constants.signals[signal]));
}

/** Start a cluster. `flags` are those of `pilothouse up`; PILOTHOUSE names the program, if it is not on the PATH. */
export async function startCluster(...flags) {
  const directory = mkdtempSync(join(tmpdir(), "pilothouse-"));
  const kubeconfig = join(directory, "kubeconfig");
  // Its standard input is a pipe, which closes with this process, also after SIGKILL.
  const words = ["up", "--exit-on-stdin-close", "--port=0", `--kubeconfig=${kubeconfig}`, ...flags];
  const child = spawn(process.env.PILOTHOUSE ?? "pilothouse", words);
  const end = () => {
    child.kill("SIGTERM");
    rmSync(directory, { recursive: true, force: true });
  };
  process.once("exit", end);
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
    pid: child.pid,
    async stop() {
      const ended = new Promise((resolve) => child.on("exit", resolve));
      end();
      await ended;
      process.off("exit", end);
    },
  };
}
