//! What containerd notes of images that it has unpacked (`metadata/buckets.go`, `snapshots/storage/bolt.go`; the schema `v1` of
//! every release since 1.0).

use super::bolt::Bucket;
use super::image::{Image, digest};

/// Where the kubelet's images are.
const NAMESPACE: &str = "k8s.io";
/// `metadata/db.go`: `dbVersion` of containerd 1.2 to 1.7; newer ones bring it forward themselves.
const VERSION: i64 = 3;
const SNAPSHOTTER: &str = "overlayfs";
/// `snapshots.KindCommitted`
const COMMITTED: u8 = 3;
/// Seconds from the year 1, with which Go's `time.Time` begins, to 1970.
const BEFORE_1970: u64 = 62_135_596_800;

/// An unpacked layer on those below it.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    /// The chain's identity: of this layer and all below.
    pub(super) chain: String,
    /// Which of the snapshots is below.
    pub(super) parent: Option<usize>,
    /// Bytes of its files.
    pub(super) size: u64,
    /// How many files and directories.
    pub(super) inodes: u64,
}

/// `meta.db`: images, their manifests and configurations, and which snapshots there are.
pub(super) fn metadata(images: &[Image], snapshots: &[Snapshot], made: u32) -> Vec<u8> {
    let mut root = Bucket::default();
    let v1 = root.bucket("v1");
    v1.put("version", signed(VERSION));
    let namespace = v1.bucket(NAMESPACE);
    for image in images {
        for name in image.names() {
            let one = namespace.bucket("images").bucket(name);
            times(one, made);
            let labels = one.bucket("labels");
            labels.put("io.cri-containerd.image", "managed");
            // The kubelet makes room by removing images that nothing runs: no registry would give these back.
            labels.put("io.cri-containerd.pinned", "pinned");
            let target = one.bucket("target");
            target.put("digest", digest(&image.manifest));
            target.put("mediatype", image.manifest_type.as_str());
            target.put("size", signed(signed_length(image.manifest.len() as u64)));
        }
        let blobs = namespace.bucket("content").bucket("blob");
        let top = image.chains().pop().unwrap_or_default();
        let config = digest(&image.config);
        // What the garbage collection follows, from an image to its snapshots.
        for (blob, label, value) in [
            (&image.manifest, "containerd.io/gc.ref.content.config", config),
            (&image.config, "containerd.io/gc.ref.snapshot.overlayfs", top),
        ] {
            let one = blobs.bucket(digest(blob));
            times(one, made);
            one.put("size", signed(signed_length(blob.len() as u64)));
            one.bucket("labels").put(label, value);
        }
    }
    let known = namespace.bucket("snapshots").bucket(SNAPSHOTTER);
    known.sequence = snapshots.len() as u64;
    for (index, snapshot) in snapshots.iter().enumerate() {
        let below = snapshot.parent.and_then(|parent| snapshots.get(parent));
        if let Some(below) = below {
            known.bucket(below.chain.as_str()).bucket("children").put(snapshot.chain.as_str(), Vec::new());
        }
        let one = known.bucket(snapshot.chain.as_str());
        times(one, made);
        one.put("name", key(index, snapshot));
        if let Some(below) = below {
            one.put("parent", below.chain.as_str());
        }
    }
    root.database()
}

/// `metadata.db` of the snapshotter: which directory is which snapshot. They are numbered from 1.
pub(super) fn snapshotter(snapshots: &[Snapshot], made: u32) -> Vec<u8> {
    let mut root = Bucket::default();
    let v1 = root.bucket("v1");
    v1.bucket("parents");
    let all = v1.bucket("snapshots");
    all.sequence = snapshots.len() as u64;
    let mut links = Vec::new();
    for (index, snapshot) in snapshots.iter().enumerate() {
        let one = all.bucket(key(index, snapshot));
        times(one, made);
        one.put("id", unsigned(directory(index)));
        one.put("kind", [COMMITTED]);
        one.put("inodes", signed(signed_length(snapshot.inodes)));
        one.put("size", signed(signed_length(snapshot.size)));
        if let Some((parent, below)) = snapshot.parent.and_then(|parent| Some((parent, snapshots.get(parent)?))) {
            one.put("parent", key(parent, below));
            // The parts are apart by a zero byte.
            let link = [unsigned(directory(parent)), vec![0], unsigned(directory(index))].concat();
            links.push((link, key(index, snapshot)));
        }
    }
    let parents = v1.bucket("parents");
    for (link, name) in links {
        parents.put(link, name);
    }
    root.database()
}

/// The directory of a snapshot.
pub(super) fn directory(index: usize) -> u64 {
    index as u64 + 1
}

/// What the snapshotter calls a snapshot.
fn key(index: usize, snapshot: &Snapshot) -> String {
    format!("{NAMESPACE}/{}/{}", directory(index), snapshot.chain)
}

fn times(bucket: &mut Bucket, made: u32) {
    // `time.Time.MarshalBinary`: version 1, seconds, nanoseconds, and -1 for UTC.
    let seconds = BEFORE_1970 + u64::from(made);
    let time = [&[1][..], &seconds.to_be_bytes(), &0_u32.to_be_bytes(), &(-1_i16).to_be_bytes()].concat();
    bucket.put("createdat", time.clone());
    bucket.put("updatedat", time);
}

/// No file here is that long.
fn signed_length(length: u64) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

/// `binary.PutUvarint`
fn unsigned(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
    bytes
}

/// `binary.PutVarint`
fn signed(number: i64) -> Vec<u8> {
    unsigned(((number << 1) ^ (number >> 63)).cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_go_writes_them() {
        assert_eq!(unsigned(0), [0]);
        assert_eq!(unsigned(300), [0xac, 0x02]);
        assert_eq!(signed(3), [6]);
        assert_eq!(signed(-65), [0x81, 0x01]);
    }
}
