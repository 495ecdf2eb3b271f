//! How messages follow each other on a stream: one byte that says what it is, the length of the rest (64 bits,
//! little-endian), the rest. The other end is python/strata/hosts/stdio.py.

const HEAD_BYTES: usize = 9;

/// What is refused as a request: more than any file or standard input that a controller sends.
const MAX_BODY_BYTES: u64 = 1 << 32;

/// What the controller sends.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    Request(Vec<u8>),
    Cancel,
}

/// What this program sends: an answer follows its head.
pub fn answer_head(body_bytes: usize) -> [u8; HEAD_BYTES] {
    head(b'A', body_bytes as u64)
}

/// A sign of life, which is whole.
pub fn heartbeat() -> [u8; HEAD_BYTES] {
    head(b'H', 0)
}

fn head(kind: u8, body_bytes: u64) -> [u8; HEAD_BYTES] {
    let mut head = [kind; HEAD_BYTES];
    head[1..].copy_from_slice(&body_bytes.to_le_bytes());
    head
}

/// Takes a stream in as it comes and gives out whole frames.
#[derive(Default)]
pub struct Decoder {
    come: Vec<u8>,
}

impl Decoder {
    pub fn push(&mut self, bytes: &[u8]) {
        self.come.extend_from_slice(bytes);
    }

    /// The next frame; `None` until it is whole.
    ///
    /// # Errors
    /// When the stream holds something else: nothing after that can be understood.
    pub fn next(&mut self) -> Result<Option<Frame>, String> {
        let Some(head) = self.come.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let [kind, length @ ..] = *head;
        let length = u64::from_le_bytes(length);
        if length > MAX_BODY_BYTES || !matches!((kind, length), (b'Q', _) | (b'C', 0)) {
            return Err("unexpected data on the standard input; let Strata start this".to_owned());
        }
        let end = HEAD_BYTES + length as usize;
        if self.come.len() < end {
            return Ok(None);
        }
        let rest = self.come.split_off(end);
        let mut body = std::mem::replace(&mut self.come, rest);
        body.drain(..HEAD_BYTES);
        Ok(Some(if kind == b'Q' { Frame::Request(body) } else { Frame::Cancel }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn written(frame: &Frame) -> Vec<u8> {
        match frame {
            Frame::Request(body) => [&head(b'Q', body.len() as u64)[..], body].concat(),
            Frame::Cancel => head(b'C', 0).to_vec(),
        }
    }

    #[test]
    fn the_form_is_fixed() {
        assert_eq!(answer_head(258), [b'A', 2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(heartbeat(), [b'H', 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn another_language_is_an_error() {
        for wrong in [&b"GET / HTTP/1.1"[..], &head(b'C', 1), &head(b'Q', MAX_BODY_BYTES + 1), &head(b'A', 0)] {
            let mut decoder = Decoder::default();
            decoder.push(wrong);
            assert!(decoder.next().is_err());
        }
    }

    proptest! {
        #[test]
        fn frames_come_back_however_they_are_cut(
            bodies in vec(proptest::option::of(vec(any::<u8>(), 0..50)), 1..6),
            piece in 1usize..30,
        ) {
            let frames: Vec<Frame> =
                bodies.into_iter().map(|body| body.map_or(Frame::Cancel, Frame::Request)).collect();
            let stream: Vec<u8> = frames.iter().flat_map(written).collect();
            let mut decoder = Decoder::default();
            let mut come = Vec::new();
            for bytes in stream.chunks(piece) {
                decoder.push(bytes);
                while let Some(frame) = decoder.next().map_err(TestCaseError::fail)? {
                    come.push(frame);
                }
            }
            prop_assert_eq!(come, frames);
        }
    }
}
