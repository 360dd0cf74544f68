//! Device numbers as the kernel writes them.

/// Parses `254:0`, as `/proc` and `/sys` write device numbers, into `makedev` form.
pub fn parse_dev(text: &str) -> Option<u64> {
    let (major, minor) = text.trim().split_once(':')?;
    Some(libc::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// `254:0` of a number in `makedev` form.
pub(crate) fn dev_text(dev: u64) -> String {
    format!("{}:{}", libc::major(dev), libc::minor(dev))
}

/// A device number of a kernel trace record (`major << 20 | minor`) as `st_dev` shows it (`makedev`).
pub fn from_kernel_dev(raw: u32) -> u64 {
    libc::makedev(raw >> 20, raw & 0xf_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_device_numbers_become_those_of_stat() {
        assert_eq!(from_kernel_dev(254 << 20 | 17), libc::makedev(254, 17));
        assert_eq!(from_kernel_dev(259 << 20 | 0x12345), libc::makedev(259, 0x12345));
        assert_eq!(parse_dev("254:17\n"), Some(libc::makedev(254, 17)));
        assert_eq!(parse_dev("254"), None);
        assert_eq!(dev_text(libc::makedev(259, 0x12345)), "259:74565");
    }
}
