//! Engine between processes: one TCP connection between every two ranks.
//!
//! A thread for each connection reads its messages into the inbox, so that a peer that sends never waits for this rank
//! to receive. A connection that closes before its rank has ended is the failure of that rank. Numbers are
//! little-endian; payloads are in the byte order of the machines, which is the same (the rendezvous checks it).

use super::{Engine, Inbox, Message, Signature};
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Connections of a rank to all others.
pub(crate) struct Connections {
    inbox: Arc<Inbox>,
    /// Connection by rank; `None` for the rank itself.
    peers: Vec<Option<Mutex<TcpStream>>>,
}

/// Longest text of a signature or a failure.
const MAX_TEXT_BYTES: u64 = 1 << 20;

const DATA: u8 = 0;
const ENDED: u8 = 1;
const FAILED: u8 = 2;
const ANNOUNCED: u8 = 3;

impl Connections {
    /// Starts to read from connected peers. A write that makes no progress for `timeout` fails.
    ///
    /// # Errors
    /// If a connection cannot be configured, or a thread cannot be started.
    pub fn new(peers: Vec<Option<TcpStream>>, timeout: Duration) -> io::Result<Connections> {
        let inbox = Arc::new(Inbox::new(peers.len()));
        for (rank, stream) in peers.iter().enumerate() {
            let Some(stream) = stream else { continue };
            stream.set_nodelay(true)?;
            stream.set_read_timeout(None)?;
            stream.set_write_timeout(Some(timeout.max(Duration::from_millis(1))))?;
            let (stream, inbox) = (stream.try_clone()?, inbox.clone());
            let named = std::thread::Builder::new().name(format!("thalweg-rank-{rank}"));
            named.spawn(move || read_all(rank, stream, &inbox))?;
        }
        Ok(Connections { inbox, peers: peers.into_iter().map(|s| s.map(Mutex::new)).collect() })
    }
}

impl Engine for Connections {
    fn send(&self, to: usize, message: Message) -> Result<(), String> {
        let Some(stream) = &self.peers[to] else { return Err(format!("rank {to} sends to itself")) };
        let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
        write(&mut *stream, &message).map_err(|e| format!("rank {to} is gone: {e}"))
    }

    fn inbox(&self) -> &Inbox {
        &self.inbox
    }
}

impl Drop for Connections {
    /// Ends the outgoing halves. The readers end when the peers have ended theirs.
    fn drop(&mut self) {
        for stream in self.peers.iter_mut().flatten() {
            let stream = stream.get_mut().unwrap_or_else(PoisonError::into_inner);
            // A connection that is lost already needs no end.
            let _ = stream.shutdown(Shutdown::Write);
        }
    }
}

/// Reads the messages of a rank until its connection ends.
fn read_all(from: usize, stream: TcpStream, inbox: &Inbox) {
    let mut stream = BufReader::with_capacity(1 << 16, stream);
    loop {
        match read(&mut stream) {
            Ok(message) => inbox.put(from, message),
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                return inbox.lose(from, || format!("rank {from} is gone: its connection was closed"));
            }
            Err(e) => return inbox.lose(from, || format!("rank {from} is gone: its connection failed, {e}")),
        }
    }
}

fn write(to: &mut impl Write, message: &Message) -> io::Result<()> {
    let mut head = vec![];
    match message {
        Message::Data(signature, payload) => {
            head.push(DATA);
            put_signature(&mut head, signature);
            head.extend((payload.len() as u64).to_le_bytes());
            to.write_all(&head)?;
            return to.write_all(payload);
        }
        Message::Announced(signature) => {
            head.push(ANNOUNCED);
            put_signature(&mut head, signature);
        }
        Message::Ended => head.push(ENDED),
        Message::Failed(cause) => {
            head.push(FAILED);
            put_text(&mut head, cause);
        }
    }
    to.write_all(&head)
}

fn put_signature(to: &mut Vec<u8>, signature: &Signature) {
    let Signature { world, number, operation, operand, at } = signature;
    to.extend([*world, *number].iter().flat_map(|n| n.to_le_bytes()));
    [operation, operand, at].into_iter().for_each(|text| put_text(to, text));
}

fn put_text(to: &mut Vec<u8>, text: &str) {
    let mut end = text.len().min(MAX_TEXT_BYTES as usize);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    to.extend((end as u64).to_le_bytes());
    to.extend(&text.as_bytes()[..end]);
}

fn read(from: &mut impl Read) -> io::Result<Message> {
    let mut kind = [0];
    from.read_exact(&mut kind)?;
    Ok(match kind[0] {
        DATA => {
            let signature = read_signature(from)?;
            let length = read_u64(from)?;
            Message::Data(signature, Arc::new(read_bytes(from, length)?))
        }
        ANNOUNCED => Message::Announced(read_signature(from)?),
        ENDED => Message::Ended,
        FAILED => Message::Failed(read_text(from)?.into()),
        other => return Err(invalid(format!("a message of unknown kind {other}"))),
    })
}

fn read_signature(from: &mut impl Read) -> io::Result<Arc<Signature>> {
    let (world, number) = (read_u64(from)?, read_u64(from)?);
    let (operation, operand, at) = (read_text(from)?, read_text(from)?, read_text(from)?);
    Ok(Arc::new(Signature { world, number, operation, operand, at }))
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

fn read_u64(from: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    from.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Reads `length` bytes. Memory grows as they arrive, whatever length a damaged message declares.
fn read_bytes(from: &mut impl Read, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length.min(64 << 20) as usize);
    from.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == length { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn read_text(from: &mut impl Read) -> io::Result<String> {
    let length = read_u64(from)?;
    if length > MAX_TEXT_BYTES {
        return Err(invalid(format!("a text of {length} bytes")));
    }
    String::from_utf8(read_bytes(from, length)?).map_err(|e| invalid(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> [Message; 4] {
        let text = |s: &str| s.to_string();
        let (operation, operand, at) = (text("all_reduce(sum)"), text("f32[2]"), text("a.rs:1:2"));
        let signature = Arc::new(Signature { world: 7, number: 9, operation, operand, at });
        let data = Message::Data(signature.clone(), Arc::new(vec![1, 2, 3]));
        [data, Message::Announced(signature), Message::Ended, Message::Failed("rank 1: no memory".into())]
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let mut bytes = vec![];
        messages().iter().for_each(|m| write(&mut bytes, m).unwrap());
        let mut from = &bytes[..];
        for message in messages() {
            assert_eq!(read(&mut from).unwrap(), message);
        }
        assert_eq!(read(&mut from).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_cut_or_damaged_message_is_an_error() {
        let mut bytes = vec![];
        write(&mut bytes, &messages()[0]).unwrap();
        for end in 0..bytes.len() {
            assert!(read(&mut &bytes[..end]).is_err());
        }
        assert!(read(&mut &[9u8][..]).is_err());
        let endless = [&[FAILED][..], &u64::MAX.to_le_bytes()].concat();
        assert!(read(&mut &endless[..]).is_err());
    }
}
