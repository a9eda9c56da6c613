//! What files of AMD's are, one after the other, and what is wrong with each.

use latchkey_attestation::ReasonCode;
use latchkey_attestation::parse::{SigningKey, SnpProduct};
use latchkey_attestation::verify::CollateralFile;
use latchkey_attestation::verify::snp::{SnpCertificate, SnpInventory, SnpKind};

use crate::snp::real;
use crate::support::NOW;
use latchkey_attestation::fake_amd::FakeAmd;

const DAY: u64 = 86_400;

fn file<'a>(name: &'a str, content: &'a [u8]) -> CollateralFile<'a> {
    CollateralFile { name, content }
}

/// Kinds, and what each is refused for at a time.
fn checked(inventory: &SnpInventory, now: u64) -> Vec<(Option<SnpKind>, Option<ReasonCode>)> {
    let kinds = inventory.entries().map(|(_, item)| item.ok().map(|item| item.kind));
    kinds.zip(inventory.check(now).map(|verdict| verdict.err().map(|refusal| refusal.code()))).collect()
}

fn good(kinds: &[SnpKind]) -> Vec<(Option<SnpKind>, Option<ReasonCode>)> {
    kinds.iter().map(|kind| (Some(*kind), None)).collect()
}

#[test]
fn every_file_says_what_it_is_and_holds() {
    for product in SnpProduct::ALL {
        let amd = FakeAmd::new(product);
        let [chip, provider] = [SigningKey::Vcek, SigningKey::Vlek].map(|kind| amd.guest(kind, 3, |_| ()));
        // The keys before the chain that they hang on.
        let files = [
            file("a.der", chip.vcek.as_ref().unwrap()),
            file("b.der", provider.vlek.as_ref().unwrap()),
            file("chain.pem", &amd.chain),
        ];
        let inventory = amd.inventory(&files);
        let kinds = [SnpKind::Vcek, SnpKind::Vlek, SnpKind::Ask, SnpKind::Ark, SnpKind::Asvk, SnpKind::Crl];
        assert_eq!(checked(&inventory, NOW), good(&kinds), "{product}");
        for (name, item) in inventory.entries() {
            let item = item.unwrap();
            assert_eq!((item.product, item.superseded), (product, false), "{name}");
            assert_eq!(item.key.map(SnpCertificate::tcb), (name != "chain.pem").then(|| amd.tcb()), "{name}");
        }
        assert!(inventory.into_collateral().is_ok());
    }
}

#[test]
fn each_of_several_things_that_are_wrong_is_said_and_the_rest_still_holds() {
    let (amd, other) = (FakeAmd::new(SnpProduct::Milan), FakeAmd::new(SnpProduct::Genoa));
    let mut cut = amd.guest(SigningKey::Vcek, 3, |_| ()).vcek.unwrap();
    cut.pop();
    let foreign = amd.guest(SigningKey::Vcek, 3, |it| it.issued_by_the_other_authority = true).vcek.unwrap();
    let files = [
        file("notes.txt", b"fetched on Monday"),
        file("cut.der", &cut),
        file("foreign.der", &foreign),
        file("milan.pem", &amd.chain),
        file("genoa.pem", &other.chain),
    ];
    let inventory = amd.inventory(&files);
    let mut expected = vec![
        (None, Some(ReasonCode::CollateralMalformed)),
        (None, Some(ReasonCode::CollateralMalformed)),
        (Some(SnpKind::Vcek), Some(ReasonCode::SnpCertificateUntrusted)),
    ];
    expected.extend(good(&[SnpKind::Ask, SnpKind::Ark, SnpKind::Asvk, SnpKind::Crl]));
    for kind in [SnpKind::Ask, SnpKind::Ark, SnpKind::Asvk, SnpKind::Crl] {
        let why =
            if kind == SnpKind::Ark { ReasonCode::CollateralRootUnknown } else { ReasonCode::CollateralMalformed };
        expected.push((Some(kind), Some(why)));
    }
    assert_eq!(checked(&inventory, NOW), expected);
    assert_eq!(inventory.into_collateral().unwrap_err().code(), ReasonCode::CollateralRootUnknown);
}

#[test]
fn what_ended_was_revoked_or_lacks_its_list_is_said_of_what_it_concerns() {
    let amd = FakeAmd::new(SnpProduct::Milan);
    let chain = [file("chain.pem", &amd.chain)];
    let of = |amd: &FakeAmd, now| -> Vec<Option<ReasonCode>> {
        checked(&amd.inventory(&[file("chain.pem", &amd.chain)]), now).into_iter().map(|(_, code)| code).collect()
    };
    // ASK, ARK, ASVK, list.
    assert_eq!(of(&amd, NOW + 5 * 365 * DAY), [None, None, None, Some(ReasonCode::SnpRevocationListExpired)]);
    assert_eq!(of(&amd, NOW - 30 * DAY), [None, None, None, Some(ReasonCode::SnpRevocationListExpired)]);
    let ended = [ReasonCode::SnpCertificateExpired; 3].map(Some);
    assert_eq!(of(&amd, NOW + 20 * 365 * DAY)[..3], ended);
    let early = [ReasonCode::SnpCertificateNotYetValid; 3].map(Some);
    assert_eq!(of(&amd, NOW - 20 * 365 * DAY)[..3], early);
    let revoked = FakeAmd::with(SnpProduct::Milan, |it| it.revoked = true);
    assert_eq!(of(&revoked, NOW), [Some(ReasonCode::SnpCertificateRevoked), None, None, None]);
    let without = FakeAmd::with(SnpProduct::Milan, |it| it.list = false);
    assert_eq!(of(&without, NOW), [None, Some(ReasonCode::SnpRevocationListMissing), None]);
    // A list that ended counts for nothing where there is a later one.
    let later = [chain[0], file("later.crl", &amd.later_list)];
    let inventory = amd.inventory(&later);
    let old: Vec<_> = inventory.entries().map(|(_, item)| item.unwrap().superseded).collect();
    assert_eq!(old, [false, false, false, true, false]);
    let codes: Vec<_> = checked(&inventory, NOW + 7 * DAY + DAY / 2).into_iter().map(|(_, code)| code).collect();
    assert_eq!(codes, [None; 5]);
    // Another root's authorities and list, of the same names.
    let other = FakeAmd::new(SnpProduct::Milan);
    let text = String::from_utf8(other.chain.clone()).unwrap();
    let sections: Vec<&str> = text.split_inclusive("-----\n").collect();
    let [ask, list] = [0..2, 6..8].map(|range| sections[range].concat());
    let files = [chain[0], file("ask.pem", ask.as_bytes()), file("list.pem", list.as_bytes())];
    let found = checked(&amd.inventory(&files), NOW);
    assert_eq!(found[4], (Some(SnpKind::Ask), Some(ReasonCode::SnpCertificateUntrusted)));
    assert_eq!(found[5], (Some(SnpKind::Crl), Some(ReasonCode::CollateralMalformed)));
}

#[test]
fn any_bit_of_an_authority_or_a_list_that_is_changed_is_found() {
    let amd = FakeAmd::new(SnpProduct::Milan);
    let sections = amd.ders();
    let names = ["ask.der", "ark.der", "asvk.der", "list.crl"];
    // One bit in each byte, at another place each time.
    for position in [0, 2, 3] {
        for byte in 0..sections[position].len() {
            let mut changed = sections.clone();
            changed[position][byte] ^= 1 << (byte % 8);
            let files: Vec<_> = names.into_iter().zip(&changed).map(|(name, content)| file(name, content)).collect();
            let verdicts = amd.inventory(&files).check(NOW).nth(position).unwrap();
            assert!(verdicts.is_err(), "byte {byte} of {}", names[position]);
        }
    }
}

#[test]
fn amds_own_chains_are_signed_by_the_roots_that_are_built_in() {
    for (chain, kinds) in [
        ("chain-milan.pem", [SnpKind::Ask, SnpKind::Ark]),
        ("chain-genoa.pem", [SnpKind::Ask, SnpKind::Ark]),
        ("chain-turin.pem", [SnpKind::Ask, SnpKind::Ark]),
        ("chain-milan-vlek.pem", [SnpKind::Asvk, SnpKind::Ark]),
    ] {
        let Some(content) = real(chain) else { return };
        let found = checked(&SnpInventory::new(&[file(chain, &content)]), NOW);
        let missing = Some(ReasonCode::SnpRevocationListMissing);
        assert_eq!(found, [(Some(kinds[0]), None), (Some(kinds[1]), missing)], "{chain}");
    }
}
