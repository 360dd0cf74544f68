//! Block devices: disks, what is mounted from them, and where files lie on them.

pub mod device;
pub mod disk;
pub mod extents;
pub mod loopdev;
pub mod mounts;
