//! Large pages under tables whose rows are read in any order: with small ones each row costs a walk through page tables besides its
//! cache lines.

/// Asks the system to hold these bytes in pages of 2 MiB. A hint: the bytes stay as they are, whatever the answer.
pub(crate) fn enlarge_pages(start: *const u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    {
        use std::time::{Duration, Instant};
        const PAGE: usize = 1 << 21;
        /// The address translations of so much are at hand anyway.
        const AT_HAND: usize = 4 * PAGE;
        /// The bytes are copied: about 5 ms for each 10 MB, and more on a machine whose memory is scattered.
        const MOST_TIME: Duration = Duration::from_millis(100);
        if bytes < AT_HAND {
            return;
        }
        let begun = Instant::now();
        let first = (start as usize).next_multiple_of(PAGE);
        for page in (first..=start as usize + bytes - PAGE).step_by(PAGE) {
            // SAFETY: moves what these addresses lead to without changing it; the caller's borrow keeps them mapped.
            let answer = unsafe { libc::madvise(page as *mut _, PAGE, libc::MADV_COLLAPSE) };
            if answer != 0 || begun.elapsed() > MOST_TIME {
                return;
            }
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes);
}
