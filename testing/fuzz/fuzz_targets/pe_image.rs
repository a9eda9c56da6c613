//! A boot stub or kernel, from whatever package the image is built of. An image that is made of one is one itself.
#![no_main]

use latchkey_image::uki::Uki;
use latchkey_measurements::pe::Image;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(image) = Image::parse(bytes) else { return };
    let _ = image.section(".linux");
    let uki = Uki {
        stub: bytes,
        linux: bytes,
        initrd: b"initrd",
        command_line: "console=ttyS0",
        os_release: "ID=test\n",
        uname: Some("6.1.0"),
    };
    if let Ok(built) = uki.build() {
        let image = Image::parse(&built).expect("the image that was built");
        assert_eq!(image.section(".initrd"), Some(&b"initrd"[..]));
        assert_eq!(image.section(".cmdline").map(|text| text.starts_with(b"console=ttyS0")), Some(true));
    }
});
