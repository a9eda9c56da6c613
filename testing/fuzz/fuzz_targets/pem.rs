//! PEM, as operators' files and authorities' bundles have it. What is found stands in the file, once and in order, and reads the same by
//! itself.
#![no_main]

use latchkey_pem::PemSection;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    let found = match PemSection::all(file) {
        Ok(found) => found,
        Err(error) => {
            assert!((1..=file.len() + 1).contains(&error.line), "{error}");
            assert!(PemSection::certificates(file).is_err());
            return;
        }
    };
    let text = std::str::from_utf8(file).expect("sections of what is no text");
    let mut behind = 0;
    for section in &found {
        let at = text[behind..].find(section.text).expect("a section that is not there");
        behind += at + section.text.len();
        let alone = PemSection::all(section.text.as_bytes()).expect("a section by itself");
        assert_eq!((alone.len(), alone[0].label, &alone[0].der), (1, section.label, &section.der));
        assert!(section.der.len() <= section.text.len() && section.line >= 1);
        assert!(!section.label.ends_with("PRIVATE KEY") || section.der.is_empty(), "a private key was decoded");
    }
    let certificates = PemSection::certificates(file).expect("what was read").count();
    assert_eq!(certificates, found.iter().filter(|section| section.label == "CERTIFICATE").count());
    assert!(found.is_empty() || PemSection::is_in(file));
});
