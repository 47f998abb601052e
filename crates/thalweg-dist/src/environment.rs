//! Variables by which launchers say which rank a process is.

use std::fmt::Display;
use thalweg::Error;

/// A process's position in the world that a launcher started.
#[derive(Debug, PartialEq)]
pub(crate) struct Launch {
    pub rank: usize,
    pub size: usize,
    /// Rank among the processes of this host.
    pub local_rank: usize,
    /// Number of processes on this host.
    pub local_size: usize,
    /// Address of rank 0, `host:port`.
    pub address: String,
}

/// Variables of a launcher: rank, size, rank on the host, number on the host. The last two may be missing.
struct Launcher {
    name: &'static str,
    variables: [&'static str; 4],
}

/// Launchers, the most specific first: `torchrun` sets its variables under `srun`, too.
const LAUNCHERS: [Launcher; 4] = [
    Launcher { name: "torchrun", variables: ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"] },
    Launcher {
        name: "Open MPI",
        variables: [
            "OMPI_COMM_WORLD_RANK",
            "OMPI_COMM_WORLD_SIZE",
            "OMPI_COMM_WORLD_LOCAL_RANK",
            "OMPI_COMM_WORLD_LOCAL_SIZE",
        ],
    },
    Launcher { name: "PMI", variables: ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"] },
    Launcher { name: "Slurm", variables: ["SLURM_PROCID", "SLURM_STEP_NUM_TASKS", SLURM_LOCAL[0], SLURM_LOCAL[1]] },
];

/// Variables of Slurm: rank on the host, number of ranks by host.
const SLURM_LOCAL: [&str; 2] = ["SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"];

const DEFAULT_PORT: u16 = 29500;

impl Launch {
    /// Finds the launcher in the variables that `get` returns. A world of one if there is none.
    ///
    /// # Errors
    /// If a launcher's variables are incomplete or no numbers, or do not say where rank 0 is.
    pub fn find(get: impl Fn(&str) -> Option<String>) -> Result<Launch, Error> {
        let Some(Launcher { name, variables }) = LAUNCHERS.into_iter().find(|l| get(l.variables[0]).is_some()) else {
            return Ok(Launch { rank: 0, size: 1, local_rank: 0, local_size: 1, address: String::new() });
        };
        let [rank, size, local_rank, local_size] = variables;
        let number = |variable: &str, text: &str| {
            text.parse().map_err(|_| invalid(variable, format_args!("is {text:?}, which is no number")))
        };
        let required = |variable: &str| {
            let text = get(variable).ok_or_else(|| invalid(variable, format_args!("is not set, by {name}")))?;
            number(variable, &text)
        };
        let (rank_number, size_number): (usize, usize) = (required(rank)?, required(size)?);
        if rank_number >= size_number {
            return Err(invalid(rank, format_args!("is {rank_number} in a world of {size_number}")));
        }
        // `srun` may say the rank as PMI does, and the rank on the host in a variable of its own.
        let text = get(local_rank).or_else(|| get(SLURM_LOCAL[0]));
        let local_rank = text.map_or(Ok(rank_number), |text| number(local_rank, &text))?;
        let local_size = match get(local_size).or_else(|| get(SLURM_LOCAL[1])) {
            // Slurm's form `4(x2),3` has a number for each of several hosts.
            Some(text) => text.split(['(', ',']).next().and_then(|n| n.parse().ok()).unwrap_or(size_number),
            None => size_number,
        };
        let address = if size_number == 1 { String::new() } else { address(name, size_number, local_size, &get)? };
        Ok(Launch { rank: rank_number, size: size_number, local_rank, local_size, address })
    }
}

/// Address of rank 0.
fn address(
    launcher: &str,
    size: usize,
    local_size: usize,
    get: &impl Fn(&str) -> Option<String>,
) -> Result<String, Error> {
    let port: u16 = match get("MASTER_PORT") {
        Some(text) => {
            text.parse().map_err(|_| invalid("MASTER_PORT", format_args!("is {text:?}, which is no port")))?
        }
        None => DEFAULT_PORT,
    };
    let host = get("MASTER_ADDR").or_else(|| get("SLURM_STEP_NODELIST").map(|list| first_host(&list)));
    match host {
        Some(host) => Ok(format!("{host}:{port}")),
        None if local_size == size => Ok(format!("127.0.0.1:{port}")),
        None => {
            let why = format_args!("is not set, and {launcher} does not say which host rank 0 is on");
            Err(invalid("MASTER_ADDR", why))
        }
    }
}

/// First host of a list in Slurm's form: `node07` of `node[07-09,12],other`.
fn first_host(list: &str) -> String {
    let Some((prefix, rest)) = list.split_once('[').filter(|(prefix, _)| !prefix.contains(',')) else {
        return list.split(',').next().unwrap_or(list).to_string();
    };
    let first = rest.split(['-', ',', ']']).next().unwrap_or_default();
    format!("{prefix}{first}")
}

fn invalid(variable: &str, why: impl Display) -> Error {
    Error::Environment(format!("{variable} {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(variables: &[(&str, &str)]) -> Result<Launch, String> {
        let get = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.to_string());
        Launch::find(get).map_err(|e| e.to_string())
    }

    fn launch(rank: usize, size: usize, local_rank: usize, local_size: usize, address: &str) -> Result<Launch, String> {
        Ok(Launch { rank, size, local_rank, local_size, address: address.into() })
    }

    #[test]
    fn each_launcher_is_found() {
        assert_eq!(find(&[]), launch(0, 1, 0, 1, ""));
        let torch = [
            ("RANK", "3"),
            ("WORLD_SIZE", "8"),
            ("LOCAL_RANK", "1"),
            ("LOCAL_WORLD_SIZE", "2"),
            ("MASTER_ADDR", "host0"),
            ("MASTER_PORT", "4000"),
            ("SLURM_PROCID", "0"),
        ];
        assert_eq!(find(&torch), launch(3, 8, 1, 2, "host0:4000"));
        let open_mpi = [
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
        ];
        assert_eq!(find(&open_mpi), launch(1, 4, 1, 4, "127.0.0.1:29500"));
        assert_eq!(find(&[("PMI_RANK", "1"), ("PMI_SIZE", "2")]), launch(1, 2, 1, 2, "127.0.0.1:29500"));
        let slurm = [
            ("SLURM_PROCID", "5"),
            ("SLURM_STEP_NUM_TASKS", "6"),
            ("SLURM_LOCALID", "1"),
            ("SLURM_STEP_TASKS_PER_NODE", "2(x3)"),
            ("SLURM_STEP_NODELIST", "gpu[07-09]"),
        ];
        assert_eq!(find(&slurm), launch(5, 6, 1, 2, "gpu07:29500"));
        let as_pmi = [&[("PMI_RANK", "5"), ("PMI_SIZE", "6")], &slurm[..]].concat();
        assert_eq!(find(&as_pmi), launch(5, 6, 1, 2, "gpu07:29500"));
    }

    #[test]
    fn errors_name_the_variable() {
        assert_eq!(find(&[("RANK", "0")]).unwrap_err(), "WORLD_SIZE is not set, by torchrun");
        assert_eq!(find(&[("RANK", "x"), ("WORLD_SIZE", "2")]).unwrap_err(), "RANK is \"x\", which is no number");
        assert_eq!(find(&[("PMI_RANK", "2"), ("PMI_SIZE", "2")]).unwrap_err(), "PMI_RANK is 2 in a world of 2");
        let elsewhere = [("RANK", "0"), ("WORLD_SIZE", "4"), ("LOCAL_WORLD_SIZE", "2")];
        assert!(find(&elsewhere).unwrap_err().starts_with("MASTER_ADDR is not set"));
        let port = [("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_PORT", "99999")];
        assert!(find(&port).unwrap_err().starts_with("MASTER_PORT"));
    }

    #[test]
    fn the_first_host_of_a_list() {
        for (list, host) in [("a", "a"), ("a,b[1-2]", "a"), ("n[3,5-6],m", "n3"), ("n[001-004]", "n001")] {
            assert_eq!(first_host(list), host);
        }
    }
}
