//! Signals while other threads compute.
//!
//! The engine builds with threads of its own. The system may deliver a signal of the backend to any
//! thread that does not block it, but PostgreSQL's handlers work in one thread only. New threads
//! inherit the mask of the one that makes them; so the backend's thread blocks all signals before
//! it calls the engine, and unblocks them whenever the engine calls back: then no other thread
//! runs. Signals that arrived in between are delivered at that moment, so a cancelled build notices
//! at its next progress report.

use std::mem::MaybeUninit;

/// All signals are blocked while this lives, except within [`Signals::delivered`].
pub(crate) struct Signals {
    /// The signal mask to restore.
    before: libc::sigset_t,
}

impl Signals {
    /// Blocks all signals.
    pub(crate) fn block() -> Self {
        let mut all = MaybeUninit::uninit();
        // SAFETY: `sigfillset` initializes the set.
        let all = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            all.assume_init()
        };
        Self { before: set_mask(&all) }
    }

    /// Blocks no signals: for a build by this thread alone.
    pub(crate) fn leave() -> Self {
        let mut none = MaybeUninit::uninit();
        let mut now = MaybeUninit::uninit();
        // SAFETY: `sigemptyset` initializes the first set. The second call blocks no further
        // signals and initializes the other set.
        let before = unsafe {
            libc::sigemptyset(none.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_BLOCK, none.as_ptr(), now.as_mut_ptr());
            now.assume_init()
        };
        Self { before }
    }

    /// Runs `call` with signals delivered as they were before, also if it unwinds.
    pub(crate) fn delivered<R>(&self, call: impl FnOnce() -> R) -> R {
        struct BlockAgain(libc::sigset_t);
        impl Drop for BlockAgain {
            fn drop(&mut self) {
                set_mask(&self.0);
            }
        }
        let _again = BlockAgain(set_mask(&self.before));
        call()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        set_mask(&self.before);
    }
}

/// Sets the signal mask of this thread; returns the old one.
fn set_mask(mask: &libc::sigset_t) -> libc::sigset_t {
    let mut old = MaybeUninit::uninit();
    // SAFETY: both point to sets, and the call initializes the second; it fails only for an unknown
    // first argument.
    unsafe {
        libc::pthread_sigmask(libc::SIG_SETMASK, mask, old.as_mut_ptr());
        old.assume_init()
    }
}
