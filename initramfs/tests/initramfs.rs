//! The same inputs give the same initramfs, and a damaged kernel package gives none.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use latchkey_initramfs::elf::ElfError;
use latchkey_initramfs::modules::ModuleError;
use latchkey_initramfs::{Initramfs, ModuleTree, Wanted};
use tempfile::TempDir;

/// A directory that goes away with the test.
struct Scratch(TempDir);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(tempfile::Builder::new().prefix(name).tempdir().unwrap())
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    fn module(&self, file: &str, name: &str, depends: &str) {
        self.write(file, &module(name, depends));
    }

    fn write(&self, file: &str, bytes: &[u8]) {
        let path = self.root().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

/// The smallest ELF file that the kernel package could hold: header, names, `.modinfo`, section table.
fn module(name: &str, depends: &str) -> Vec<u8> {
    let names = b"\0.shstrtab\0.modinfo\0";
    let information = format!("license=GPL\0depends={depends}\0name={name}\0");
    let table = 64 + names.len() + information.len();
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(64, 0);
    bytes[16] = 1;
    bytes[40..48].copy_from_slice(&(table as u64).to_le_bytes());
    bytes[58..64].copy_from_slice(&[64, 0, 3, 0, 1, 0]);
    bytes.extend_from_slice(names);
    bytes.extend_from_slice(information.as_bytes());
    for (name, at, length) in [(0_u32, 0, 0), (1, 64, names.len()), (11, 64 + names.len(), information.len())] {
        let mut header = [0; 64];
        header[..4].copy_from_slice(&name.to_le_bytes());
        header[24..32].copy_from_slice(&(at as u64).to_le_bytes());
        header[32..40].copy_from_slice(&(length as u64).to_le_bytes());
        bytes.extend_from_slice(&header);
    }
    bytes
}

fn kernel(name: &str) -> Scratch {
    let tree = Scratch::new(name);
    tree.module("kernel/md/dm-mod.ko", "dm_mod", "");
    tree.module("kernel/md/dm-crypt.ko", "dm_crypt", "dm-mod,encrypted-keys");
    tree.module("kernel/virtio/virtio_ring.ko", "virtio_ring", "");
    tree.module("kernel/virtio/virtio-rng.ko", "virtio_rng", "virtio_ring");
    tree.write("modules.builtin", b"kernel/security/keys/encrypted-keys/encrypted-keys.ko\n");
    tree
}

fn wanted(names: &[&str]) -> Vec<Wanted> {
    names.iter().map(|name| Wanted::parse(name)).collect()
}

fn order(root: &Path, names: &[&str]) -> Result<Vec<String>, ModuleError> {
    let modules = ModuleTree::open(root)?.closure(&wanted(names))?;
    Ok(modules.iter().map(|module| format!("{}{}", if module.optional { "?" } else { "" }, module.name)).collect())
}

fn build(root: &Path) -> Vec<u8> {
    let mut initramfs = Initramfs::new(b"the agent".to_vec()).unwrap();
    initramfs.modules(ModuleTree::open(root).unwrap().closure(&wanted(&["dm_crypt", "?virtio-rng"])).unwrap()).unwrap();
    initramfs.build(0).unwrap()
}

#[test]
fn two_directories_give_the_same_bytes() {
    let (here, there) = (kernel("here"), kernel("a-longer-name-there"));
    assert_eq!(build(here.root()), build(there.root()));
}

#[test]
fn dependencies_come_first_and_built_in_ones_not_at_all() {
    let tree = kernel("order");
    assert_eq!(
        order(tree.root(), &["dm_crypt", "?virtio_rng"]).unwrap(),
        ["?virtio_ring", "?virtio_rng", "dm_mod", "dm_crypt"]
    );
}

/// A dependency is needed when the first module is that needs it.
#[test]
fn what_is_needed_later_stands_behind_the_line_that_says_so() {
    let tree = kernel("sections");
    tree.module("kernel/md/dm-bufio.ko", "dm_bufio", "dm-mod");
    tree.module("kernel/md/dm-verity.ko", "dm_verity", "dm-mod,dm-bufio");
    tree.module("kernel/md/dm-integrity.ko", "dm_integrity", "dm-mod,dm-bufio");
    let names = wanted(&["dm_crypt", "dm_integrity", "dm_verity", "?virtio-rng"]);
    let mut initramfs = Initramfs::new(b"the agent".to_vec()).unwrap();
    initramfs.modules(ModuleTree::open(tree.root()).unwrap().closure(&names).unwrap()).unwrap();
    let archive = zstd::bulk::decompress(&initramfs.build(0).unwrap(), 1 << 20).unwrap();
    let order = "?virtio_ring.ko\n?virtio_rng.ko\n\
                 [root]\ndm_mod.ko\ndm_bufio.ko\ndm_verity.ko\n\
                 [state-disk]\ndm_crypt.ko\ndm_integrity.ko\n\0";
    assert!(archive.windows(order.len()).any(|window| window == order.as_bytes()), "{order}");
}

#[test]
fn a_module_needed_by_another_is_no_longer_optional() {
    let tree = kernel("promote");
    assert_eq!(order(tree.root(), &["?dm_crypt", "dm_crypt"]).unwrap(), ["dm_mod", "dm_crypt"]);
    assert_eq!(order(tree.root(), &["?virtio_rng", "virtio_ring"]).unwrap(), ["virtio_ring", "?virtio_rng"]);
}

#[test]
fn a_missing_module_is_an_error_unless_optional() {
    let tree = kernel("missing");
    assert_eq!(order(tree.root(), &["?nvme"]).unwrap(), [""; 0]);
    assert!(matches!(order(tree.root(), &["nvme"]), Err(ModuleError::Missing { needed_by: None, .. })));
    assert!(matches!(order(tree.root(), &["?nvme", "nvme"]), Err(ModuleError::Missing { .. })));
    tree.module("kernel/broken.ko", "broken", "nowhere");
    assert!(matches!(order(tree.root(), &["?broken"]), Err(ModuleError::Missing { needed_by: Some(_), .. })));
}

#[test]
fn hostile_packages_are_refused() {
    let tree = kernel("hostile");
    tree.module("kernel/a.ko", "a", "b");
    tree.module("kernel/b.ko", "b", "a");
    assert!(matches!(order(tree.root(), &["a"]), Err(ModuleError::Circle(_))));
    tree.module("updates/dm-mod.ko", "dm_mod", "");
    assert!(matches!(order(tree.root(), &["dm_mod"]), Err(ModuleError::Ambiguous(..))));
    tree.module("kernel/liar.ko", "honest", "");
    assert!(matches!(order(tree.root(), &["liar"]), Err(ModuleError::WrongName(..))));
    tree.write("kernel/text.ko", &[b'#'; 100]);
    assert!(matches!(order(tree.root(), &["text"]), Err(ModuleError::Elf { source: ElfError::NotAModule, .. })));
    tree.write("kernel/packed.ko.xz", b"not xz");
    assert!(matches!(order(tree.root(), &["packed"]), Err(ModuleError::Io { .. })));
}
