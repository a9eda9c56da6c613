//! Who asks for what he shall not have with a ticket's token: decided without a cluster. `issued.rs` tries the same with a real one,
//! `nodes.rs` what nodes ask for.

use super::asker::{Asker, NOW, OWN, TICKET, refused, serving, texts};
use super::csr::{BASIC_CONSTRAINTS, CN, Csr, O, OU, SAN, armoured, attribute, extension_request};
use latchkey_kubelet_certificates::{
    CLOCK_SKEW, CertificateRefusal as Refusal, CertificateRequest, Left, MAX_PEM, Posted, Reading, SERVING_SIGNER,
    TOKEN_GROUP, Ticket, TicketState, read,
};
use std::net::IpAddr;
use x509_cert::der::asn1::{Any, Ia5String, OctetString};
use x509_cert::der::{Encode as _, Tag};
use x509_cert::ext::pkix::name::GeneralName;

#[test]
fn a_kubelet_with_its_ticket_gets_one_certificate_for_its_own_name() {
    let claim = Asker::token().claim(&Csr::node("edge-1"), Some(&TICKET)).unwrap();
    assert_eq!((claim.token().as_str(), claim.uid()), ("abc123", "uid-1"));
    assert_eq!(claim.stands("uid-1").unwrap().uid(), "uid-1");
    // Cut between the claim and the approval: the same request goes on.
    let again = Ticket { used_by: Some("uid-1"), ..TICKET };
    Asker::token().claim(&Csr::node("edge-1"), Some(&again)).unwrap();
}

#[test]
fn requests_that_another_library_made_are_read_alike() {
    // OpenSSL's, from the corpus of the fuzz target.
    let [client, serving] = [
        &include_bytes!("../../../../testing/fuzz/corpus/certificate_request/client")[..],
        include_bytes!("../../../../testing/fuzz/corpus/certificate_request/serving"),
    ];
    let client = CertificateRequest::read(client).unwrap();
    assert_eq!((client.common_name(), client.dns(), client.addresses()), ("system:node:edge-1", &[][..], &[][..]));
    let serving = CertificateRequest::read(serving).unwrap();
    let addresses: [IpAddr; 2] = ["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()];
    assert_eq!((serving.dns(), serving.addresses()), (&texts(&["edge-1"])[..], &addresses[..]));
}

#[test]
fn a_stolen_token_gets_no_certificate_for_another_name() {
    for name in ["edge-2", "control-1", "edge-1.evil", "edge", "EDGE-1", "edge-1 ", "", "edge-1\0"] {
        let refusal = refused(&Csr::node(name));
        assert!(matches!(refusal, Refusal::NameForeign | Refusal::SubjectRefused), "{name:?}: {refusal:?}");
    }
    assert_eq!(refused(&Csr::node("edge-2")), Refusal::NameForeign);
    assert_eq!(refused(&Csr::of("system:nodes", "edge-1")), Refusal::NameForeign);
    assert_eq!(refused(&Csr::of("system:nodes", "system:kube-controller-manager")), Refusal::NameForeign);
    // A record without a name is nobody's, either.
    let nameless = Ticket { node: "", ..TICKET };
    assert_eq!(Asker::token().claim(&Csr::node(""), Some(&nameless)), Err(Refusal::NameForeign));
}

#[test]
fn a_token_gets_no_certificate_of_an_administrator() {
    assert_eq!(refused(&Csr::of("system:masters", "system:node:edge-1")), Refusal::GroupRefused);
    assert_eq!(refused(&Csr::of("system:masters", "kubernetes-admin")), Refusal::GroupRefused);
    // Go takes every organisation for a group, and the last common name for the user.
    let value = |oid, text: &str| (oid, Tag::PrintableString, text.as_bytes().to_vec());
    let (nodes, name) = (value(O, "system:nodes"), value(CN, "system:node:edge-1"));
    let masters = value(O, "system:masters");
    for subject in [
        vec![vec![nodes.clone()], vec![masters.clone()], vec![name.clone()]],
        vec![vec![nodes.clone(), masters.clone()], vec![name.clone()]],
        vec![vec![nodes.clone()], vec![name.clone()], vec![masters.clone()]],
        vec![vec![nodes.clone()], vec![name.clone()], vec![value(CN, "system:node:control-1")]],
        vec![vec![nodes.clone()], vec![name.clone(), value(CN, "system:node:control-1")]],
        vec![vec![nodes.clone()], vec![name.clone()], vec![value(OU, "x")]],
        vec![vec![name.clone()], vec![nodes.clone()]],
        vec![vec![name.clone()]],
        vec![vec![nodes.clone()]],
        vec![],
    ] {
        let csr = Csr { subject: subject.clone(), ..Csr::node("edge-1") };
        assert_eq!(refused(&csr), Refusal::SubjectRefused, "{subject:?}");
    }
}

#[test]
fn a_subject_that_another_reader_could_read_as_another_is_refused() {
    let nodes = || vec![(O, Tag::PrintableString, b"system:nodes".to_vec())];
    let wide: Vec<u8> = "system:node:edge-1".bytes().flat_map(|byte| [0, byte]).collect();
    for (tag, bytes) in [
        (Tag::BmpString, wide),
        (Tag::TeletexString, b"system:node:edge-1".to_vec()),
        (Tag::Utf8String, "system:node:edge-1\u{200b}".as_bytes().to_vec()),
        (Tag::Utf8String, b"system:node:edge-1\n".to_vec()),
        (Tag::OctetString, b"system:node:edge-1".to_vec()),
    ] {
        let csr = Csr { subject: vec![nodes(), vec![(CN, tag, bytes)]], ..Csr::node("edge-1") };
        assert_eq!(refused(&csr), Refusal::SubjectRefused, "{tag:?}");
    }
    // Both forms that kubelets' library writes.
    let csr = Csr {
        subject: vec![nodes(), vec![(CN, Tag::Utf8String, b"system:node:edge-1".to_vec())]],
        ..Csr::node("edge-1")
    };
    Asker::token().claim(&csr, Some(&TICKET)).unwrap();
}

#[test]
fn a_token_gets_no_serving_certificate() {
    let token = Asker { signer: SERVING_SIGNER, ..Asker::token() };
    let csr = Csr::node("edge-1").names(&["edge-1"], &OWN);
    assert_eq!(token.serving(&csr, None), Err(Refusal::RequesterRefused));
    let disguised = Asker { usages: texts(&["digital signature", "server auth"]), ..Asker::token() };
    assert_eq!(disguised.claim(&Csr::node("edge-1"), Some(&TICKET)), Err(Refusal::UsageRefused));
    for usages in [
        &["digital signature", "client auth", "server auth"][..],
        &["digital signature", "client auth", "cert sign"],
        &["digital signature", "any"],
        &["digital signature"],
        &["client auth", "client auth"],
        &[],
    ] {
        let asker = Asker { usages: texts(usages), ..Asker::token() };
        assert_eq!(asker.claim(&Csr::node("edge-1"), Some(&TICKET)), Err(Refusal::UsageRefused), "{usages:?}");
    }
}

#[test]
fn a_token_used_twice_gets_one_certificate() {
    let used = Ticket { used_by: Some("uid-0"), ..TICKET };
    assert_eq!(Asker::token().claim(&Csr::node("edge-1"), Some(&used)), Err(Refusal::TicketUsed));
    // Two join services look at two requests of one token at once: the claim that was written first counts.
    let claim = Asker::token().claim(&Csr::node("edge-1"), Some(&TICKET)).unwrap();
    assert_eq!(claim.stands("uid-0"), Err(Refusal::TicketUsed));
}

#[test]
fn a_token_is_good_for_nothing_after_its_ticket() {
    let csr = Csr::node("edge-1");
    for (ticket, refusal) in [
        (None, Refusal::TicketUnknown),
        (Some(Ticket { ends_at: NOW - CLOCK_SKEW, ..TICKET }), Refusal::TicketExpired),
        (Some(Ticket { ends_at: 0, ..TICKET }), Refusal::TicketExpired),
        (Some(Ticket { state: TicketState::Reported, ..TICKET }), Refusal::TicketReported),
        (Some(Ticket { state: TicketState::LeaseEnded, ..TICKET }), Refusal::TicketLeaseEnded),
        (Some(Ticket { state: TicketState::Denied, ..TICKET }), Refusal::NodeDenied),
    ] {
        assert_eq!(Asker::token().claim(&csr, ticket.as_ref()), Err(refusal));
    }
    // The API server took the token a moment ago: its clock is another.
    let just = Ticket { ends_at: NOW - CLOCK_SKEW + 1, ..TICKET };
    Asker::token().claim(&csr, Some(&just)).unwrap();
}

#[test]
fn who_is_neither_a_tickets_token_nor_a_node_is_refused_and_named() {
    let groups = |groups: &[&str]| Asker { groups: texts(groups), ..Asker::token() };
    let (all, auth) = ("system:bootstrappers", "system:authenticated");
    for asker in [
        groups(&[all, "system:bootstrappers:kubeadm:default-node-token", auth]),
        groups(&[all, TOKEN_GROUP, "system:bootstrappers:other", auth]),
        groups(&[all, TOKEN_GROUP, "system:masters", auth]),
        groups(&[all, auth]),
        groups(&[TOKEN_GROUP, TOKEN_GROUP, TOKEN_GROUP]),
        Asker { username: "admin".into(), ..Asker::token() },
        Asker { username: "system:bootstrap:ABC123".into(), ..Asker::token() },
        Asker { username: "system:bootstrap:abc1234".into(), ..Asker::token() },
        Asker { username: "system:bootstrap:../../".into(), ..Asker::token() },
        Asker { username: "xsystem:bootstrap:abc123".into(), ..Asker::token() },
    ] {
        assert_eq!(asker.claim(&Csr::node("edge-1"), Some(&TICKET)), Err(Refusal::RequesterRefused));
    }
    let csr = Csr::node("edge-1").names(&["edge-1"], &[]);
    for asker in [
        Asker { username: "system:serviceaccount:kube-system:x".into(), ..Asker::node("edge-1") },
        Asker { groups: texts(&["system:nodes", "system:masters", auth]), ..Asker::node("edge-1") },
        Asker { groups: texts(&[auth]), ..Asker::node("edge-1") },
    ] {
        assert_eq!(asker.serving(&csr, None), Err(Refusal::RequesterRefused));
    }
}

#[test]
fn a_client_certificate_has_no_names_of_hosts() {
    assert_eq!(refused(&Csr::node("edge-1").names(&["edge-1"], &[])), Refusal::ClientWithNames);
    assert_eq!(refused(&Csr::node("edge-1").names(&[], &OWN)), Refusal::ClientWithNames);
}

#[test]
fn extensions_and_attributes_that_no_kubelet_asks_for_are_refused() {
    let authority = vec![0x30, 0x03, 0x01, 0x01, 0xff];
    let names = [GeneralName::DnsName(Ia5String::new("edge-1").unwrap())].to_vec().to_der().unwrap();
    let base = Csr::node("edge-1");
    for csr in [
        Csr { extensions: vec![(BASIC_CONSTRAINTS, authority.clone())], ..base.clone() },
        Csr { extensions: vec![(SAN, names.clone()), (BASIC_CONSTRAINTS, authority.clone())], ..base.clone() },
        Csr { extensions: vec![(SAN, names.clone()), (SAN, names.clone())], ..base.clone() },
        // A challenge password, and a second list of extensions behind the first.
        Csr { attributes: vec![attribute("1.2.840.113549.1.9.7", &Any::null())], ..base.clone() },
        Csr {
            extensions: vec![(SAN, names)],
            attributes: vec![extension_request(&[(BASIC_CONSTRAINTS, authority)])],
            ..base.clone()
        },
    ] {
        assert_eq!(refused(&csr), Refusal::ExtensionRefused);
    }
    let uri = GeneralName::UniformResourceIdentifier(Ia5String::new("spiffe://cluster/admin").unwrap());
    let mail = GeneralName::Rfc822Name(Ia5String::new("root@example").unwrap());
    for name in [uri, mail] {
        assert_eq!(serving(&Csr::node("edge-1").general_names(vec![name])), Err(Refusal::ExtensionRefused));
    }
    let cut = GeneralName::IpAddress(OctetString::new(&[192, 0, 2][..]).unwrap());
    assert_eq!(serving(&Csr::node("edge-1").general_names(vec![cut])), Err(Refusal::Malformed));
}

#[test]
fn who_does_not_hold_the_key_is_refused() {
    let csr = Csr { foreign_signature: true, ..Csr::node("edge-1") };
    assert_eq!(refused(&csr), Refusal::SignatureInvalid);
    let csr = Csr { signature_algorithm: "1.2.840.10045.4.1", ..Csr::node("edge-1") };
    assert_eq!(refused(&csr), Refusal::SignatureInvalid, "SHA-1");
    let csr = Csr { key_algorithm: ("1.2.840.10045.2.1", "1.3.132.0.10"), ..Csr::node("edge-1") };
    assert_eq!(refused(&csr), Refusal::KeyRefused, "secp256k1");
}

#[test]
fn bytes_that_two_readers_could_read_differently_are_refused() {
    let read = |pem: &[u8]| CertificateRequest::read(pem).err();
    let (good, other) = (Csr::node("edge-1").pem(), Csr::node("control-1").pem());
    assert_eq!(read(&good), None);
    let text = String::from_utf8(good.clone()).unwrap();
    for bad in [
        [&other[..], &good].concat(),
        [&good[..], &other].concat(),
        [b"hello\n", &good[..]].concat(),
        [b"\n", &good[..]].concat(),
        [&good[..], b"\n"].concat(),
        [&good[..], b"\0"].concat(),
        text.replace('\n', "\r\n").into(),
        text.replace("REQUEST-----\nMI", "REQUEST-----\nProc-Type: 4,ENCRYPTED\n\nMI").into(),
        text.replace("CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST").into(),
        text.replacen("\nMI", "\n MI", 1).into(),
        text.trim_end().into(),
        Vec::new(),
        vec![b'-'; MAX_PEM],
        vec![0; MAX_PEM + 1],
    ] {
        assert_eq!(read(&bad), Some(Refusal::Malformed), "{}", String::from_utf8_lossy(&bad));
    }
    // Longer lengths than DER has, and bytes behind the end.
    let der = Csr::node("edge-1").request().to_der().unwrap();
    assert_eq!(der[..2], [0x30, 0x81], "a length of one byte");
    let long = [&[0x30, 0x82, 0], &der[2..]].concat();
    for bad in [long, [&der[..], &[0]].concat()] {
        assert_eq!(read(request_of(&bad).as_bytes()), Some(Refusal::Malformed));
    }
    assert_eq!(read(request_of(&der).as_bytes()), None, "the armour is not the reason");
}

fn request_of(der: &[u8]) -> String {
    armoured("CERTIFICATE REQUEST", der)
}

#[test]
fn what_is_somebody_elses_is_left_alone() {
    let pem = Csr::node("edge-1").pem();
    for signer in ["kubernetes.io/kube-apiserver-client", "kubernetes.io/legacy-unknown", "example.com/x", ""] {
        let asker = Asker { signer, ..Asker::token() };
        assert!(matches!(asker.reads(&pem), Reading::Leave(Left::OtherSigner)), "{signer}");
    }
    let Asker { signer, username, groups, usages } = &Asker::token();
    let decided = read(&Posted { uid: "uid-1", signer, username, groups, usages, pem: &pem, decided: true });
    assert!(matches!(decided, Reading::Leave(Left::Decided)));
}

proptest::proptest! {
    #[test]
    fn a_damaged_request_is_never_another(position in 0_usize..4096, byte: u8) {
        let mut der = Csr::node("edge-1").request().to_der().unwrap();
        let position = position % der.len();
        let before = std::mem::replace(&mut der[position], byte);
        let read = CertificateRequest::read(request_of(&der).as_bytes());
        proptest::prop_assert_eq!(read.is_ok(), before == byte);
    }
}
