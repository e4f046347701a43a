//! Large pages under tables whose rows are read in any order, and under values whose rows lie far apart: with small ones each row costs a
//! walk through page tables besides its cache lines.

/// Bytes of a large page.
pub(crate) const LARGE_PAGE: usize = 1 << 21;

/// Asks the system to give these bytes, which nobody has touched yet, pages of 2 MiB. A hint.
pub(crate) fn prefer_large_pages(start: *mut u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    if bytes >= LARGE_PAGE && (start as usize).is_multiple_of(LARGE_PAGE) {
        // SAFETY: says how these addresses are to be mapped, whole pages of them; they stay what they are.
        unsafe { libc::madvise(start as *mut _, bytes / LARGE_PAGE * LARGE_PAGE, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes);
}

/// Asks the system to hold these bytes in pages of 2 MiB. A hint: the bytes stay as they are, whatever the answer.
pub(crate) fn enlarge_pages(start: *const u8, bytes: usize) {
    #[cfg(target_os = "linux")]
    {
        use std::time::{Duration, Instant};
        const PAGE: usize = LARGE_PAGE;
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
