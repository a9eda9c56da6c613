//! `./dev docs`: the custom resource definitions as a file of the chart, on standard output.

fn main() {
    print!("{}", latchkey_kubernetes_store::chart_definitions());
}
