//! Test code: the first process of a pod, which holds its namespaces and does nothing. Not part of a release.

fn main() {
    loop {
        std::thread::park();
    }
}
