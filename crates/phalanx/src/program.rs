//! The name under which the program runs: it may be linked or copied under others than its own.
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Volcano's programs that run in a cluster, and the command of this one that takes their flags.
const DAEMONS: [Daemon; 2] = [
    Daemon { file: "vc-scheduler", command: "scheduler" },
    Daemon { file: "vc-controller-manager", command: "controllers" },
];

/// Whose command line the program takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// Its own.
    Phalanx,
    /// Its own, as `kubectl phalanx`.
    KubectlPlugin,
    /// That of one of Volcano's programs, which has no commands.
    Daemon(Daemon),
    /// That of Volcano's command line, with its help, its messages and its exit code.
    Vcctl,
}

/// One of Volcano's programs that run in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Daemon {
    file: &'static str,
    command: &'static str,
}

impl Program {
    /// That of this process.
    pub(crate) fn current() -> Self {
        Self::named(std::env::args_os().next().as_deref())
    }

    fn named(program: Option<&OsStr>) -> Self {
        let file = program.and_then(|program| Path::new(program).file_stem()).and_then(OsStr::to_str);
        let daemon = DAEMONS.into_iter().find(|daemon| file == Some(daemon.file));
        match (file, daemon) {
            (_, Some(daemon)) => Self::Daemon(daemon),
            (Some("kubectl-phalanx"), _) => Self::KubectlPlugin,
            (Some("vcctl"), _) => Self::Vcctl,
            _ => Self::Phalanx,
        }
    }

    /// How users call it, up to its commands.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Phalanx | Self::Daemon(_) => "phalanx",
            Self::KubectlPlugin => "kubectl phalanx",
            Self::Vcctl => "vcctl",
        }
    }

    /// The name of its file.
    pub(crate) fn file(self) -> &'static str {
        match self {
            Self::Phalanx => "phalanx",
            Self::KubectlPlugin => "kubectl-phalanx",
            Self::Daemon(daemon) => daemon.file,
            Self::Vcctl => "vcctl",
        }
    }

    /// The command line that clap reads. Volcano's chart has the words `2>&1` among its arguments, which no shell
    /// reads.
    pub(crate) fn arguments(self, words: Vec<OsString>) -> Vec<OsString> {
        let words = words.into_iter().skip(1);
        let name = std::iter::once(OsString::from(self.name()));
        match self {
            Self::Daemon(daemon) => {
                name.chain([daemon.command.into()]).chain(words.filter(|word| word != "2>&1")).collect()
            }
            Self::Phalanx | Self::KubectlPlugin | Self::Vcctl => name.chain(words).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_whose_command_line_is_taken() {
        for (path, expected) in [
            ("phalanx", Program::Phalanx),
            ("/usr/local/bin/kubectl-phalanx", Program::KubectlPlugin),
            ("C:/kubectl-phalanx.exe", Program::KubectlPlugin),
            ("./vcctl", Program::Vcctl),
            ("/vc-scheduler", Program::Daemon(DAEMONS[0])),
            ("/vc-controller-manager", Program::Daemon(DAEMONS[1])),
            ("target/debug/phalanx-1234", Program::Phalanx),
        ] {
            assert_eq!(Program::named(Some(OsStr::new(path))), expected, "{path}");
        }
    }
}
