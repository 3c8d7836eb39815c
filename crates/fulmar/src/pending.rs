//! Stand-ins for the parts of `proto` that have not arrived yet, with their final signatures.

/// Finds frames in a stream.
#[derive(Debug, Default)]
pub(crate) struct FrameStream {
    held: Vec<u8>,
}

impl FrameStream {
    pub(crate) fn push(&mut self, bytes: &[u8], take: &mut dyn FnMut(&[u8])) {
        self.held.extend_from_slice(bytes);
        loop {
            let start =
                self.held.iter().position(|b| matches!(b, 0xFE | 0xFD)).unwrap_or(self.held.len());
            self.held.drain(..start);
            let Some(&length) = self.held.get(1) else { return };
            let signed = self.held.get(2).is_some_and(|flags| flags & 1 == 1);
            let total = usize::from(length)
                + match self.held[0] {
                    0xFE => 8,
                    _ if signed => 25,
                    _ => 12,
                };
            if self.held.len() < total {
                return;
            }
            let frame: Vec<u8> = self.held.drain(..total).collect();
            take(&frame);
        }
    }
}
