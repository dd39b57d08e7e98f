package com.example;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;

/** A cluster for a suite: {@code pilothouse up} as a child process, in memory, on a free port. */
final class Cluster implements AutoCloseable {
  private final Path directory;
  private final Process process;

  /** Starts a cluster. The flags are those of {@code pilothouse up}; PILOTHOUSE names the program, if it is not on the PATH. */
  Cluster(String... flags) throws IOException {
    directory = Files.createTempDirectory("pilothouse-");
    var program = Objects.requireNonNullElse(System.getenv("PILOTHOUSE"), "pilothouse");
    // Its standard input is a pipe, which closes with this process, also after SIGKILL.
    var command =
        new ArrayList<>(List.of(program, "up", "--exit-on-stdin-close", "--port=0", "--kubeconfig=" + kubeconfig()));
    command.addAll(List.of(flags));
    process = new ProcessBuilder(command).redirectError(log().toFile()).start();
    var printed = process.inputReader();
    for (var line = ""; !line.startsWith("pilothouse is ready"); ) {
      line = printed.readLine();
      if (line == null) {
        throw new IOException("pilothouse ended before it was ready: " + Files.readString(log()));
      }
    }
  }

  Path kubeconfig() {
    return directory.resolve("kubeconfig");
  }

  private Path log() {
    return directory.resolve("log");
  }

  @Override
  public void close() throws IOException, InterruptedException {
    process.destroy();
    if (!process.waitFor(20, TimeUnit.SECONDS)) {
      process.destroyForcibly();
    }
    Files.deleteIfExists(kubeconfig());
    Files.deleteIfExists(log());
    Files.delete(directory);
  }
}
