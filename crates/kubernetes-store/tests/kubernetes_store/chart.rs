//! The chart has the custom resource definitions of this release.

#[test]
fn the_chart_installs_the_definitions_of_this_release() {
    let there = include_str!("../../../../charts/latchkey/templates/definitions.yaml");
    assert!(
        there == latchkey_kubernetes_store::chart_definitions(),
        "`./dev docs` writes the chart's definitions anew"
    );
}

#[test]
fn nothing_in_the_definitions_is_a_directive_of_a_template() {
    assert!(!latchkey_kubernetes_store::chart_definitions().contains("{{"));
}
