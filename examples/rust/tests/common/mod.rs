//! A cluster for a suite: `pilothouse up` as a child process, in memory, on a free port.

use std::process::Stdio;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

pub struct Cluster {
    pub client: Client,
    _process: Child,
    _directory: TempDir,
}

impl Cluster {
    /// Start a cluster. `flags` are those of `pilothouse up`; PILOTHOUSE names the program, if it is not on the PATH.
    /// It ends when the value is dropped, and with this process, also after a signal: then the pipe closes that is its
    /// standard input.
    pub async fn start(flags: &[&str]) -> Cluster {
        let directory = tempfile::tempdir().unwrap();
        let kubeconfig = directory.path().join("kubeconfig");
        let program = std::env::var("PILOTHOUSE").unwrap_or_else(|_| "pilothouse".to_string());
        let mut process = Command::new(program)
            .args(["up", "--exit-on-stdin-close", "--port=0"])
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("pilothouse can be started");
        let mut printed = BufReader::new(process.stdout.take().unwrap()).lines();
        loop {
            let line = printed.next_line().await.unwrap().expect("pilothouse ended before it was ready");
            if line.starts_with("pilothouse is ready") {
                break;
            }
        }
        let config = Kubeconfig::read_from(&kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
        Cluster { client: Client::try_from(config).unwrap(), _process: process, _directory: directory }
    }
}
