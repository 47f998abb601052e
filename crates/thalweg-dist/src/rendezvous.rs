//! Rendezvous of processes: from the address of rank 0 to a connection between every two ranks.
//!
//! Rank 0 listens. The others connect to it and say their rank and the port that they listen at. When all are there,
//! rank 0 sends the list of addresses; each rank then connects to those between 0 and itself and accepts those above. A
//! message is a line of text. What is not from a rank of this world is dropped.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};
use thalweg::Error;

/// First words of a rank to rank 0: protocol, its version, byte order.
const GREETING: &str = if cfg!(target_endian = "little") { "thalweg 2 little" } else { "thalweg 2 big" };
const MAX_LINE_BYTES: usize = 1 << 20;
/// Time that a process that has connected may take for its first line.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause between attempts to connect or accept.
const PAUSE: Duration = Duration::from_millis(2);

/// Connections by rank; `None` for the rank itself.
type Peers = Vec<Option<TcpStream>>;

/// Connections and devices of all ranks.
#[derive(Debug)]
pub(crate) struct Rendezvous {
    pub peers: Peers,
    /// Identity of each rank's device.
    pub identities: Vec<Option<String>>,
}

/// An identity as a word of a line.
fn word(identity: Option<&str>) -> String {
    identity.map_or_else(|| "-".into(), |of| of.split_whitespace().collect::<Vec<_>>().join("_"))
}

fn identity(word: &str) -> Option<String> {
    (word != "-").then(|| word.to_string())
}

struct Deadline {
    start: Instant,
    timeout: Duration,
}

impl Deadline {
    fn new(timeout: Duration) -> Deadline {
        Deadline { start: Instant::now(), timeout }
    }

    /// Time left; `None` if none is.
    fn left(&self) -> Option<Duration> {
        self.timeout.checked_sub(self.start.elapsed()).filter(|left| !left.is_zero())
    }
}

/// Listens as rank 0 at `host:port`: at this host only if that is a loopback address, else on all interfaces.
///
/// # Errors
/// If the port cannot be listened at.
pub(crate) fn listen(address: &str) -> Result<TcpListener, Error> {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, "0"));
    let all = if is_local(host) { host } else { "0.0.0.0" };
    TcpListener::bind(format!("{all}:{port}")).map_err(|e| failed(format!("rank 0 cannot listen at {address}: {e}")))
}

/// Connects rank 0 to the others, and tells them the identities of all devices.
///
/// # Errors
/// If ranks are missing when the timeout has passed; the error names them. The ranks that are there get it, too.
pub(crate) fn host(
    listener: &TcpListener,
    size: usize,
    own: Option<String>,
    timeout: Duration,
) -> Result<Rendezvous, Error> {
    let deadline = Deadline::new(timeout);
    let mut peers: Peers = (0..size).map(|_| None).collect();
    let mut addresses = vec!["-".to_string(); size];
    let mut identities = vec![word(own.as_deref()); size];
    while (1..size).any(|rank| peers[rank].is_none()) {
        let Some(mut stream) = accept(listener, &deadline).map_err(|e| failed(format!("rank 0: {e}")))? else {
            let missing = (1..size).filter(|&rank| peers[rank].is_none()).map(|rank| rank.to_string());
            let missing: Vec<String> = missing.collect();
            let text = format!("ranks {} of {size} are missing after {timeout:?}", missing.join(", "));
            peers.iter_mut().flatten().for_each(|peer| refuse(peer, &text));
            return Err(failed(text));
        };
        let Some((rank, of, port, device)) = greeting(&mut stream) else { continue };
        if of != size || rank == 0 || rank >= size {
            refuse(&mut stream, &format!("rank {rank} of {of} does not belong to a world of {size}"));
        } else if peers[rank].is_some() {
            refuse(&mut stream, &format!("there are two ranks {rank}"));
        } else if let Ok(from) = stream.peer_addr() {
            // A rank on the host of rank 0 is reached by the others as rank 0 is.
            let host = if from.ip().is_loopback() { "-".into() } else { from.ip().to_string() };
            addresses[rank] = format!("{host}/{port}");
            peers[rank] = Some(stream);
            identities[rank] = device;
        }
    }
    let list = format!("ranks {:x} {} {}", token(), addresses[1..].join(" "), identities.join(" "));
    for (rank, peer) in peers.iter_mut().enumerate() {
        if let Some(stream) = peer {
            send_line(stream, &list).map_err(|e| failed(format!("rank {rank} is gone: {e}")))?;
        }
    }
    Ok(Rendezvous { peers, identities: identities.iter().map(|word| identity(word)).collect() })
}

/// Connects a rank above 0 to the others.
///
/// # Errors
/// If rank 0 does not answer in time, or refuses this rank; if another rank cannot be reached.
pub(crate) fn join(
    address: &str,
    (rank, size): (usize, usize),
    device: Option<String>,
    timeout: Duration,
) -> Result<Rendezvous, Error> {
    let deadline = Deadline::new(timeout);
    let context = |e: io::Error| failed(format!("rank {rank}: {e}"));
    let Some(mut first) = connect(address, &deadline) else {
        return Err(failed(format!("rank {rank}: rank 0 does not answer at {address} within {timeout:?}")));
    };
    let home = first.peer_addr().map_err(context)?.ip();
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let own: IpAddr = match (is_local(host), home) {
        (true, home) => home,
        (false, IpAddr::V4(_)) => Ipv4Addr::UNSPECIFIED.into(),
        (false, IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let listener = TcpListener::bind(SocketAddr::new(own, 0)).map_err(context)?;
    let port = listener.local_addr().map_err(context)?.port();
    send_line(&mut first, &format!("{GREETING} {rank} {size} {port} {}", word(device.as_deref()))).map_err(context)?;
    // Rank 0 may wait its own timeout for others, and then names them.
    first.set_read_timeout(Some(timeout.saturating_add(GREETING_TIMEOUT))).map_err(context)?;
    let list = read_line(&mut first).map_err(|e| failed(format!("rank {rank}: no answer of rank 0, {e}")))?;
    let Some((token, addresses)) = list.strip_prefix("ranks ").and_then(|l| l.split_once(' ')) else {
        return Err(failed(list.strip_prefix("error ").unwrap_or("rank 0 sent no list of ranks").into()));
    };
    let (addresses, identities): (Vec<&str>, Vec<&str>) = {
        let mut words: Vec<&str> = addresses.split(' ').collect();
        let identities = words.split_off((size - 1).min(words.len()));
        (words, identities)
    };

    let mut peers: Peers = (0..size).map(|_| None).collect();
    peers[0] = Some(first);
    for (other, peer) in peers.iter_mut().enumerate().take(rank).skip(1) {
        let gone = || failed(format!("rank {rank}: rank {other} cannot be reached"));
        let (host, port) = addresses.get(other - 1).and_then(|a| a.split_once('/')).ok_or_else(gone)?;
        let ip = if host == "-" { home } else { host.parse().map_err(|_| gone())? };
        let target = SocketAddr::new(ip, port.parse().map_err(|_| gone())?).to_string();
        let mut stream = connect(&target, &deadline).ok_or_else(gone)?;
        send_line(&mut stream, &format!("rank {token} {rank}")).map_err(context)?;
        *peer = Some(stream);
    }
    while let Some(missing) = (rank + 1..size).find(|&other| peers[other].is_none()) {
        let Some(mut stream) = accept(&listener, &deadline).map_err(context)? else {
            return Err(failed(format!("rank {rank}: rank {missing} has not connected within {timeout:?}")));
        };
        let _ = stream.set_read_timeout(Some(GREETING_TIMEOUT));
        let line = read_line(&mut stream).unwrap_or_default();
        let own = line.strip_prefix("rank ").and_then(|l| l.strip_prefix(token));
        if let Some(other) = own.and_then(|l| l.trim().parse().ok()).filter(|&r: &usize| r > rank && r < size) {
            peers[other] = Some(stream);
        }
    }
    Ok(Rendezvous { peers, identities: identities.into_iter().map(identity).collect() })
}

/// Rank, size, port and device that a process says; `None` if it is none of a world.
fn greeting(stream: &mut TcpStream) -> Option<(usize, usize, u16, String)> {
    stream.set_read_timeout(Some(GREETING_TIMEOUT)).ok()?;
    let line = read_line(stream).ok()?;
    let Some(rest) = line.strip_prefix(GREETING) else {
        refuse(stream, &format!("rank 0 speaks {GREETING:?}"));
        return None;
    };
    let mut words = rest.split_whitespace();
    let mut number = || words.next()?.parse::<u16>().ok();
    let (rank, size, port) = (number()?.into(), number()?.into(), number()?);
    Some((rank, size, port, words.next()?.to_string()))
}

fn refuse(stream: &mut TcpStream, why: &str) {
    // A process that is gone needs no reason.
    let _ = send_line(stream, &format!("error {why}"));
}

fn is_local(host: &str) -> bool {
    host == "localhost" || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Accepts a connection; `None` if none comes in time.
fn accept(listener: &TcpListener, deadline: &Deadline) -> io::Result<Option<TcpStream>> {
    listener.set_nonblocking(true)?;
    while deadline.left().is_some() {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(Some(stream));
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(PAUSE),
            Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(None)
}

/// Connects to `host:port`, again and again until the deadline: the other process may not listen yet.
fn connect(address: &str, deadline: &Deadline) -> Option<TcpStream> {
    while let Some(left) = deadline.left() {
        for to in address.to_socket_addrs().into_iter().flatten() {
            if let Ok(stream) = TcpStream::connect_timeout(&to, left) {
                return Some(stream);
            }
        }
        std::thread::sleep(PAUSE);
    }
    None
}

fn send_line(stream: &mut TcpStream, line: &str) -> io::Result<()> {
    let one = line.replace('\n', " ");
    stream.write_all(format!("{one}\n").as_bytes())
}

/// Reads up to the end of a line, and nothing beyond it.
fn read_line(stream: &mut TcpStream) -> io::Result<String> {
    let mut line = vec![];
    let mut byte = [0];
    loop {
        stream.read_exact(&mut byte)?;
        if byte[0] == b'\n' {
            return String::from_utf8(line).map_err(|_| io::ErrorKind::InvalidData.into());
        }
        line.push(byte[0]);
        if line.len() > MAX_LINE_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// Number that the ranks of a world show each other, so that ranks of another world are not taken for them.
fn token() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

fn failed(message: String) -> Error {
    Error::Value(format!("rendezvous: {message}"))
}
