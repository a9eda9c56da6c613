//! The reference manifest beside the image.

use std::fs;
use std::path::Path;

use latchkey_attestation::ReferenceValues;
use latchkey_image::{DEBIAN_STUB, Image, Source};
use latchkey_measurements::pe_sample;
use latchkey_measurements::predict::{MachineType, TdxImage, Uki};
use latchkey_measurements::signing::SigningKey;

use crate::disk::build;
use crate::in_toto;
use crate::sample::Sample;

/// An image that can be predicted: with Debian's boot stub, for two types of machines.
pub(crate) fn image(sample: &Sample) -> Option<Image> {
    if !Path::new(DEBIAN_STUB).is_file() {
        latchkey_test_support::skip(format_args!("{DEBIAN_STUB} is missing: apt-get install systemd-boot-efi"));
        return None;
    }
    let mut image = sample.image();
    image.stub = Source::File(DEBIAN_STUB.into());
    let machine = |name| MachineType::builtin(name).unwrap().with_variables(None).unwrap();
    image.machines = vec![machine("debian-12-ovmf"), machine("debian-12-ovmf-kernel")];
    Some(image)
}

#[test]
fn the_manifest_says_what_the_image_measures_and_where_it_comes_from() {
    let sample = Sample::new();
    let Some(image) = image(&sample) else { return };
    let built = build(&image, &sample.out("a"));
    let text = fs::read(built.manifest.as_ref().unwrap()).unwrap();
    let values = ReferenceValues::from_json(&text).unwrap();
    assert_eq!((values.name().as_str(), values.serial()), ("sample", 1));
    let [manifest] = values.images() else { panic!("one image") };
    let uki = fs::read(&built.uki).unwrap();
    for machine in &image.machines {
        let predicted = Uki::measure(&uki).unwrap().predict(machine).unwrap().pcrs();
        let written = manifest.machine(&machine.name).unwrap();
        assert_eq!(written.enforced().iter().collect::<Vec<_>>(), predicted.keys().copied().collect::<Vec<_>>());
        assert!(written.pcrs().iter().all(|(pcr, reference)| predicted[pcr] == reference.value));
    }
    let provenance = manifest.provenance();
    // What was asked for, not what came out.
    assert_eq!(provenance.command_line(), Some("console=ttyS0 quiet"));
    assert_eq!(provenance.at(), None);
    let text = String::from_utf8(text).unwrap();
    let circumstances: Vec<_> = provenance.circumstances().collect();
    for expected in [("compression", "zstd"), ("rootFormat", "squashfs"), ("kernelRelease", "6.1.0-sample")] {
        assert!(circumstances.contains(&expected), "{expected:?}: {circumstances:?}");
    }
    assert!(circumstances.iter().any(|(name, version)| *name == "mksquashfs" && version.contains("version 4.")));
    in_toto::validates(built.manifest.as_ref().unwrap());
    for what in ["\"agent\"", "\"boot-stub\"", "\"kernel\"", "\"root-listing\"", "sample_1.2.3.raw", "sample_1.2.3.efi"]
    {
        assert!(text.contains(what), "{what}: {text}");
    }
    // Nothing of where it was built.
    assert!(!text.contains(sample.path("").to_str().unwrap()), "{text}");
}

#[test]
fn registers_of_tdx_guests_stand_in_the_manifest_for_machines_that_may_be_such() {
    let sample = Sample::new();
    let Some(mut image) = image(&sample) else { return };
    // A boot stub that measures into them.
    let mut stub = pe_sample::stub(10);
    pe_sample::append(&mut stub, ".sdmagic", b"#### LoaderInfo: systemd-stub 257.13-1 ####\0");
    image.stub = Source::Bytes(stub);
    let text = r#"{"name": "trusted", "secure_boot": "off", "secure_boot_variable": "empty",
        "tdx": {"kernel_measures": "tpm"}}"#;
    image.machines.push(MachineType::from_json(text.as_bytes()).unwrap().with_variables(None).unwrap());
    let built = build(&image, &sample.out("a"));
    let values = ReferenceValues::from_json(&fs::read(built.manifest.as_ref().unwrap()).unwrap()).unwrap();
    let [manifest] = values.images() else { panic!("one image") };
    let uki = fs::read(&built.uki).unwrap();
    let measured = TdxImage::measure(&uki[..]).unwrap();
    for machine in &image.machines {
        let predicted = measured.predict(machine).unwrap().map(|prediction| prediction.registers());
        assert_eq!(predicted.is_some(), machine.name == "trusted");
        assert_eq!(manifest.machine(&machine.name).unwrap().tdx(), predicted.as_ref());
    }
}

#[test]
fn a_signed_manifest_is_the_same_each_time_and_says_its_revision() {
    let (one, other) = (Sample::new(), Sample::new());
    let key = SigningKey::generate().unwrap().to_file(None).unwrap();
    let built = [&one, &other].map(|sample| {
        let mut image = image(sample)?;
        image.epoch = 1_700_000_000;
        image.manifest_key = Some(
            SigningKey::parse::<latchkey_measurements::signing::SigningError>(key.expose(), || unreachable!()).unwrap(),
        );
        Some(build(&image, &sample.out("a")))
    });
    let [Some(first), Some(second)] = built else { return };
    assert_eq!(first.parts, second.parts);
    let [one, other] = [&first, &second].map(|built| fs::read_to_string(built.signature.as_ref().unwrap()).unwrap());
    assert_eq!(one, other);
    assert!(one.contains("manifest:sample serial:1700000000"), "{one}");
    let values = ReferenceValues::from_json(&fs::read(first.manifest.unwrap()).unwrap()).unwrap();
    assert_eq!(values.images()[0].provenance().at(), Some("2023-11-14T22:13:20Z"));
}

#[test]
fn no_signature_of_an_older_manifest_stays_beside_a_new_one() {
    let sample = Sample::new();
    let Some(image) = image(&sample) else { return };
    fs::create_dir_all(sample.out("a")).unwrap();
    let signature = sample.out("a").join("reference.json.minisig");
    fs::write(&signature, "of another").unwrap();
    let built = build(&image, &sample.out("a"));
    assert!(built.manifest.unwrap().is_file() && !signature.exists());
}

#[test]
fn an_image_whose_measurements_are_uncertain_gets_no_manifest_and_is_not_built() {
    let sample = Sample::new();
    let Some(mut image) = image(&sample) else { return };
    // A stub that nobody knows the measurements of.
    image.stub = sample.image().stub;
    let error = image.build(&sample.out("a"), &mut |_| {}).unwrap_err();
    assert_eq!(error.code().as_str(), "image-manifest-failed");
    assert_eq!(fs::read_dir(sample.out("a")).unwrap().count(), 0);
}
