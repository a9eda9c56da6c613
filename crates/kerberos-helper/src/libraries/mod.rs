//! MIT's libraries, each with what is needed of it behind safe functions.
//!
//! They are loaded by their full names: the number in a name stands for the layout of structures and for what functions take,
//! and changes with them.

pub(crate) mod gss;
pub(crate) mod kadm5;
pub(crate) mod keys;
pub(crate) mod krb5;
mod load;
