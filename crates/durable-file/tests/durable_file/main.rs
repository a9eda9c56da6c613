//! Files beside other writers, and among what others put in their way.

mod hostile;
mod reading;
mod writers;
