//! Recordings in the formats of other tools. What needs only sums comes from [`Named`]; event logs are written while the events are read again.
