//! Which part of a program's state makes its start slow: factors that are taken out of a profile, designs that say
//! which are there in which variant, and the effect of each, from starts taken in random blocks.
//!
//! Pure: [`factor`] and [`propose`] look at a list of names and sizes, [`design`] at a number, [`effects`] at times,
//! [`search`] at answers. Who copies profiles and starts programs is `app/work`.

pub mod design;
pub mod effects;
pub mod factor;
pub mod propose;
pub mod search;
