//! One start with everything around it: the scene, the simulated disk, the watching, and where what is seen goes.

pub mod disk;
pub mod events;
pub mod head;
pub mod sink;
pub mod stage;
pub mod timing;
pub mod watch;
