//! How much memory this process can still have: of the machine, of its container (cgroup), and within its own limits (`ulimit`).

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes, where the system tells: the least of what any limit leaves.
pub fn available() -> Option<u64> {
    [
        of_machine(Path::new("/proc/meminfo")),
        of_container(Path::new("/proc/self/cgroup"), Path::new("/sys/fs/cgroup")),
        of_process(),
    ]
    .into_iter()
    .flatten()
    .min()
}

/// `MemAvailable`
fn of_machine(meminfo: &Path) -> Option<u64> {
    let text = fs::read_to_string(meminfo).ok()?;
    kilobytes(&text, "MemAvailable:")
}

/// `<name>   123 kB`
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// What the control groups of this process leave, version 2 and 1; a limit of a group above counts too.
fn of_container(own: &Path, root: &Path) -> Option<u64> {
    let text = fs::read_to_string(own).ok()?;
    let mut left: Vec<u64> = Vec::new();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let (base, limits, used) = match controllers {
            "" => (root.to_owned(), &["memory.max", "memory.high"][..], "memory.current"),
            some if some.split(',').any(|name| name == "memory") => {
                (root.join("memory"), &["memory.limit_in_bytes"][..], "memory.usage_in_bytes")
            }
            _ => continue,
        };
        // within a container the path may be the host's: its own group is then the root
        let mut group: PathBuf = base.join(path.trim_start_matches('/'));
        loop {
            left.extend(limits.iter().filter_map(|limit| spare(&group, limit, used)));
            if group == base || !group.pop() || !group.starts_with(&base) {
                break;
            }
        }
    }
    left.into_iter().min()
}

/// What a limit of a group leaves; pages of files, which the kernel gives back, do not count as used.
fn spare(group: &Path, limit: &str, used: &str) -> Option<u64> {
    let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    let limit = number(limit)?;
    let pages = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let pages = pages.lines().find_map(|line| line.strip_prefix("inactive_file ")?.trim().parse::<u64>().ok());
    Some(limit.saturating_sub(number(used)?.saturating_sub(pages.unwrap_or(0))))
}

/// What `ulimit -v` and `ulimit -d` leave.
#[cfg(target_os = "linux")]
fn of_process() -> Option<u64> {
    use rustix::process::{Resource, getrlimit};
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let left =
        |resource: Resource, used: &str| Some(getrlimit(resource).current?.saturating_sub(kilobytes(&status, used)?));
    [left(Resource::As, "VmSize:"), left(Resource::Data, "VmData:")].into_iter().flatten().min()
}

#[cfg(not(target_os = "linux"))]
fn of_process() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_containers_count_wherever_they_are_set() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), text).unwrap();
        };
        let left = || of_container(&at("own"), &at("root"));
        assert_eq!(left(), None);
        write("own", "0::/a/b\n");
        write("root/a/b/memory.max", "max\n");
        write("root/a/b/memory.current", "100\n");
        assert_eq!(left(), None, "no limit");
        write("root/a/b/memory.high", "5000\n");
        assert_eq!(left(), Some(4900));
        write("root/a/memory.max", "3000\n");
        write("root/a/memory.current", "2500\n");
        assert_eq!(left(), Some(500), "of the group above");
        write("root/a/memory.stat", "anon 7\ninactive_file 400\n");
        assert_eq!(left(), Some(900), "pages of files can be had back");
        write("own", "4:cpu,memory:/c\n1:name=x:/\n");
        write("root/memory/memory.limit_in_bytes", "1000\n");
        write("root/memory/memory.usage_in_bytes", "1200\n");
        assert_eq!(left(), Some(0), "version 1, seen from within");
    }

    #[test]
    fn the_machine_tells() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("meminfo");
        fs::write(&path, "MemTotal: 9 kB\nMemAvailable:      12 kB\n").unwrap();
        assert_eq!(of_machine(&path), Some(12 << 10));
        assert!(available().is_some_and(|bytes| bytes > 0));
    }
}
