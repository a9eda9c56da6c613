//! The client against small real servers on loopback, honest and hostile.

mod calls;
mod followers;
mod hostile;
mod notify;
mod support;
mod tls;
