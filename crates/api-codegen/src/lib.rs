//! Regenerates `crates/api/src/generated/` from the `.proto` files: message types by prost, service traits and glue by
//! [`services`], and the contracts' descriptors for tests in other languages. The result is checked in, so that nobody who builds the agent runs a code generator.
//! The message types of Sparkplug, `crates/sparkplug/src/generated/`, are made here, too.

mod services;

use std::{error::Error, path::Path};

/// The proto package, and the name of the file made from it.
pub const PACKAGE: &str = "latchkey.v1";

/// Every contract, relative to `crates/api/proto`.
const CONTRACTS: [&str; 4] = ["enrol.proto", "init.proto", "join.proto", "keys.proto"];

/// Messages with a field that must not be printed. Their `Debug` and `Drop` are written by hand in `crates/api/src/secrets.rs`.
const SECRET_MESSAGES: [&str; 14] = [
    "BootstrapManifest",
    "EnrolRequest",
    "Enrolled",
    "AuthorizeRequest",
    "InitRequest",
    "AttachRequest",
    "RecoverRequest",
    "Succeeded",
    "JoinTicket",
    "ClusterJoin",
    "ControlPlaneFile",
    "SecretsKey",
    "RejoinTicket",
    "GetDataKeyResponse",
];

/// The proto package of Sparkplug's payloads, and the name of the file made from it.
pub const SPARKPLUG: &str = "sparkplug.b";

/// Its file, relative to `crates/sparkplug/proto`.
const SPARKPLUG_FILE: &str = "sparkplug_b.proto";

/// The first line of a file made from a directory.
fn header(from: &str) -> String {
    format!("// Made from {from} by `cargo run -p latchkey-api-codegen`; a test fails when it is out of date.\n")
}

/// Generates the Rust source of the package from the contracts in `proto_dir`.
///
/// # Errors
/// A contract that cannot be read or does not compile, with the compiler's own words.
pub fn generate(proto_dir: &Path) -> Result<String, Box<dyn Error>> {
    let mut config = prost_build::Config::new();
    config
        .service_generator(Box::new(services::Glue))
        .skip_debug(SECRET_MESSAGES.map(|message| format!(".{PACKAGE}.{message}")));
    source(&mut config, &compile(proto_dir, &CONTRACTS, true)?, PACKAGE, "crates/api/proto")
}

/// Generates the Rust source of Sparkplug's payloads from `proto_dir`.
///
/// # Errors
/// As [`generate`].
pub fn sparkplug(proto_dir: &Path) -> Result<String, Box<dyn Error>> {
    let compiled = compile(proto_dir, &[SPARKPLUG_FILE], true)?;
    source(&mut prost_build::Config::new(), &compiled, SPARKPLUG, "crates/sparkplug/proto")
}

fn source(
    config: &mut prost_build::Config,
    compiled: &protox::Compiler,
    package: &str,
    from: &str,
) -> Result<String, Box<dyn Error>> {
    let module = prost_build::Module::from_protobuf_package_name(package);
    let requests = compiled.file_descriptor_set().file.into_iter().map(|file| (module.clone(), file)).collect();
    let source = config.generate(requests)?.remove(&module).ok_or("the contracts define nothing")?;
    Ok(format!("{}{source}", header(from)))
}

/// The contracts in `proto_dir` as a serialized `google.protobuf.FileDescriptorSet`: what tests in other languages load
/// instead of running protoc.
///
/// # Errors
/// As [`generate`].
pub fn descriptors(proto_dir: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    Ok(compile(proto_dir, &CONTRACTS, false)?.encode_file_descriptor_set())
}

fn compile(proto_dir: &Path, files: &[&str], comments: bool) -> Result<protox::Compiler, Box<dyn Error>> {
    let mut compiler = protox::Compiler::new([proto_dir])?;
    compiler.include_source_info(comments).include_imports(true).open_files(files)?;
    Ok(compiler)
}
