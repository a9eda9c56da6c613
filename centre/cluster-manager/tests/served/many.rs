//! Many clusters at once.

use std::time::Instant;

use latchkey_factory_plus::uuids::class;
use latchkey_test_support::block_on;

use crate::rig::Rig;

/// So many at once. `cargo bench` of the whole measures the goal; this shows that nothing waits for another.
const CLUSTERS: usize = 20;

#[test]
fn many_clusters_are_set_up_side_by_side() {
    let rig = Rig::new();
    let objects: Vec<_> =
        (0..CLUSTERS).map(|_| block_on(rig.db().create_object(class::EDGE_CLUSTER, None)).unwrap().1.uuid).collect();
    let start = Instant::now();
    for (number, cluster) in objects.iter().enumerate() {
        rig.write(*cluster, &rig.configuration(&format!("C{number}")));
    }
    rig.until("all", |all| (all.values().filter(|view| view.ready).count() == CLUSTERS).then_some(()));
    let all = start.elapsed();
    let start = Instant::now();
    rig.ready("One");
    println!("{CLUSTERS} clusters in {all:?}; one in {:?}", start.elapsed());
    assert_eq!(rig.members(rig.local.edge_flux).len(), CLUSTERS + 1);
}
