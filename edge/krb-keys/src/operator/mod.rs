//! `krb-keys run`: keeps the keys that `KerberosKey` and `LocalSecret` resources ask for.
//!
//! 1. [`watch`], [`resource`]: the resources as they stand, listed again whenever a watch may have lost something; read, or refused.
//! 2. [`rivals`]: who was first, where two want the same.
//! 3. [`decide`]: from a resource and what was found out to effects, without asking anybody.
//! 4. [`act`], [`object`]: finds out, and carries out: one thing after the other, until nothing is to be done.
//! 5. [`account`]: the account at the centre that goes with a principal.
//! 6. [`work`]: which resource is looked at when: when it changes, after a failure, and now and then, since keys can stop to serve
//!    without anybody telling.

mod account;
mod act;
mod decide;
#[cfg(test)]
mod hostile;
mod object;
mod resource;
mod rivals;
mod watch;
mod work;

pub(crate) mod command;
