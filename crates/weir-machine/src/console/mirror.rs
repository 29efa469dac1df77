//! The screen, which has a thread of its own: a terminal that is stopped (Ctrl-S), or a pager that
//! nobody turns, must not keep the machine's words from the log and from scripts.
//!
//! Between the two stands a queue with an end. What does not fit is left out on the screen, which
//! says so; nothing here ever waits for a screen that stands still.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Pieces under way to the screen; each is what was read at once.
const PIECES_MAX: usize = 256;
/// How long a screen may stand still at the end before it is given up.
const PATIENCE: Duration = Duration::from_secs(1);

/// The screen's end of the queue.
pub(super) struct Mirror {
    pieces: SyncSender<Vec<u8>>,
    /// What did not fit, and is still to be told on the screen.
    missed_bytes: u64,
    missed_bytes_total: u64,
    /// Pieces that were written.
    written: Arc<AtomicU64>,
    trouble: Arc<Mutex<Option<String>>>,
    /// Ends with the thread.
    ended: Receiver<()>,
}

impl Mirror {
    /// Starts the thread.
    pub(super) fn start(mut screen: Box<dyn Write + Send>) -> io::Result<Self> {
        let (pieces, taken) = mpsc::sync_channel::<Vec<u8>>(PIECES_MAX);
        let (end, ended) = mpsc::channel();
        let written = Arc::new(AtomicU64::new(0));
        let trouble = Arc::new(Mutex::new(None));
        let (for_thread, why) = (Arc::clone(&written), Arc::clone(&trouble));
        thread::Builder::new().name("screen".into()).spawn(move || {
            let _end: mpsc::Sender<()> = end;
            for piece in taken {
                if let Err(error) = screen.write_all(&piece).and_then(|()| screen.flush()) {
                    *why.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.to_string());
                    return;
                }
                for_thread.fetch_add(1, Ordering::Relaxed);
            }
        })?;
        Ok(Self { pieces, missed_bytes: 0, missed_bytes_total: 0, written, trouble, ended })
    }

    /// Hands over what is to be shown; never waits.
    pub(super) fn show(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let mut piece = Vec::new();
        if self.missed_bytes > 0 {
            let note = format!("\r\n[{} bytes are not shown here]\r\n", self.missed_bytes);
            piece.extend_from_slice(note.as_bytes());
        }
        piece.extend_from_slice(bytes);
        match self.pieces.try_send(piece) {
            // A screen that failed takes nothing; why is told at the end.
            Ok(()) | Err(TrySendError::Disconnected(_)) => self.missed_bytes = 0,
            Err(TrySendError::Full(_)) => {
                self.missed_bytes += bytes.len() as u64;
                self.missed_bytes_total += bytes.len() as u64;
            }
        }
    }

    /// Nothing more comes: waits while the screen takes something. Returns why it does not show
    /// everything, if so.
    pub(super) fn finish(self) -> Option<String> {
        let Self { pieces, missed_bytes_total, written, trouble, ended, .. } = self;
        drop(pieces);
        let mut before = written.load(Ordering::Relaxed);
        let mut stands = false;
        while ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            let now = written.load(Ordering::Relaxed);
            stands = now == before;
            if stands {
                break;
            }
            before = now;
        }
        let failed = trouble.lock().unwrap_or_else(PoisonError::into_inner).take();
        failed.or_else(|| {
            (stands || missed_bytes_total > 0)
                .then(|| "the screen was stalled, so not all of it was shown there".to_owned())
        })
    }
}
