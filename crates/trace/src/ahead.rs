//! A thread that reads a trace's pieces ahead of whoever takes them. It is all that a trace has of the world beside
//! `Read` and `Write`: decoding is a fifth of the time that a report takes.

use super::block::Block;
use super::pieces::{Piece, Pieces};
use std::io::Read;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

/// So many pieces are ahead at most: enough that neither side waits for the other, in few megabytes.
const AHEAD: usize = 4;

/// Pieces that a thread reads ahead.
pub(super) struct Ahead {
    pieces: Receiver<Piece>,
    /// Blocks whose buffers can be reused.
    used: Sender<Block>,
    thread: Option<JoinHandle<()>>,
}

impl Ahead {
    /// Starts the thread.
    ///
    /// # Errors
    /// The pieces as they were, where no thread can be started.
    pub(super) fn start<R: Read + Send + 'static>(pieces: Box<Pieces<R>>) -> Result<Self, Box<Pieces<R>>> {
        let (job, jobs) = channel::<Box<Pieces<R>>>();
        let (done, ready) = sync_channel(AHEAD);
        let (used, unused) = channel();
        let work = move || jobs.into_iter().for_each(|mut pieces| read_all(&mut pieces, &done, &unused));
        match Builder::new().name("trace".into()).spawn(work) {
            // A thread that takes no job ended by a panic, which asking it for a piece tells.
            Ok(thread) => {
                let _ = job.send(pieces);
                Ok(Self { pieces: ready, used, thread: Some(thread) })
            }
            Err(_) => Err(pieces),
        }
    }

    /// The next piece; the buffers of an unused block are returned.
    pub(super) fn next(&mut self, block: Block) -> Piece {
        // Nobody takes it where all was read.
        let _ = self.used.send(block);
        match (self.pieces.recv(), &mut self.thread) {
            (Ok(piece), _) => piece,
            (Err(_), thread) => match thread.take().map(JoinHandle::join) {
                Some(Err(panic)) => std::panic::resume_unwind(panic),
                _ => Piece::End(None),
            },
        }
    }
}

/// Reads until the end, or until nobody wants more.
fn read_all<R: Read>(pieces: &mut Pieces<R>, done: &SyncSender<Piece>, unused: &Receiver<Block>) {
    loop {
        let piece = pieces.next(unused.try_recv().unwrap_or_default());
        let is_end = matches!(piece, Piece::End(_));
        if done.send(piece).is_err() || is_end {
            return;
        }
    }
}
