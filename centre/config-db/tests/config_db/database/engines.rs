//! What is true of a database is true on each engine.

/// Each of these, on each engine.
macro_rules! on_each_engine {
    ($($name:ident,)*) => {
        mod embedded {
            $(#[test] fn $name() { super::$name(&$crate::place::Place::embedded()); })*
        }
        mod postgres {
            $(#[test] fn $name() {
                if let Some(place) = $crate::place::Place::postgres() {
                    super::$name(&place);
                }
            })*
        }
    };
}

pub(crate) use on_each_engine;
