//! Service glue: for each service a trait to implement, a server that dispatches to it, and a client.

use prost_build::{Comments, Method, Service, ServiceGenerator};
use std::fmt::Write;

/// Writes the glue against `latchkey_api::grpc`.
pub(crate) struct Glue;

impl ServiceGenerator for Glue {
    fn generate(&mut self, service: Service, out: &mut String) {
        for method in &service.methods {
            assert!(!method.client_streaming, "{}: client streaming is not part of our gRPC", method.proto_name);
        }
        let full_name = format!("{}.{}", service.package, service.proto_name);
        write_trait(&service, out);
        write_server(&service, &full_name, out);
        write_client(&service, &full_name, out);
    }
}

fn write_trait(service: &Service, out: &mut String) {
    push_comments(&service.comments, out);
    let name = &service.name;
    push(out, format_args!("pub trait {name}<C: Send + Sync + 'static>: Send + Sync + 'static {{"));
    for method in &service.methods {
        push_comments(&method.comments, out);
        let Method { name, input_type, output_type, .. } = method;
        let (replies, answer) = if method.server_streaming {
            (format!(", replies: crate::grpc::Replies<{output_type}>"), "()")
        } else {
            (String::new(), output_type.as_str())
        };
        push(
            out,
            format_args!(
                "fn {name}(&self, request: crate::grpc::Request<C, {input_type}>{replies})
                 -> impl Future<Output = Result<{answer}, crate::grpc::Status>> + Send;"
            ),
        );
    }
    push(out, format_args!("}}"));
}

fn write_server(service: &Service, full_name: &str, out: &mut String) {
    let name = &service.name;
    let methods: Vec<String> = service.methods.iter().map(|method| format!("\"{}\"", method.proto_name)).collect();
    push(
        out,
        format_args!(
            "/// Serves an implementation of [`{name}`].
            #[derive(Debug)]
            pub struct {name}Server<T>(std::sync::Arc<T>);
            impl<T> {name}Server<T> {{
                /// Wraps the implementation for [`crate::grpc::Server::service`].
                pub fn new(implementation: T) -> Self {{ Self::shared(std::sync::Arc::new(implementation)) }}
                /// The same for an implementation that others hold as well.
                pub fn shared(implementation: std::sync::Arc<T>) -> Self {{ Self(implementation) }}
            }}
            impl<C: Send + Sync + 'static, T: {name}<C>> crate::grpc::Service<C> for {name}Server<T> {{
                fn name(&self) -> &'static str {{ \"{full_name}\" }}
                fn methods(&self) -> &'static [&'static str] {{ &[{}] }}
                fn start(&self, method: &str, inbound: crate::grpc::Inbound<C>)
                    -> Result<crate::grpc::Running, crate::grpc::Status> {{
                    let service = std::sync::Arc::clone(&self.0);
                    match method {{",
            methods.join(", ")
        ),
    );
    for method in &service.methods {
        let Method { name, proto_name, .. } = method;
        let (kind, arguments) =
            if method.server_streaming { ("server_streaming", "request, replies") } else { ("unary", "request") };
        push(
            out,
            format_args!(
                "\"{proto_name}\" => inbound.{kind}(move |{arguments}| async move {{ service.{name}({arguments}).await }}),"
            ),
        );
    }
    push(out, format_args!("_ => Err(crate::grpc::Status::unknown_method(self.name(), method)), }} }} }}"));
}

fn write_client(service: &Service, full_name: &str, out: &mut String) {
    let name = &service.name;
    push(
        out,
        format_args!(
            "/// Calls [`{name}`] on a peer.
            #[derive(Debug, Clone)]
            pub struct {name}Client(crate::grpc::Channel);
            impl {name}Client {{
                /// Calls go over this channel.
                pub fn new(channel: crate::grpc::Channel) -> Self {{ Self(channel) }}"
        ),
    );
    for method in &service.methods {
        push_comments(&method.comments, out);
        let Method { name, proto_name, input_type, output_type, .. } = method;
        let (kind, answer) = if method.server_streaming {
            ("server_streaming", format!("crate::grpc::Streaming<{output_type}>"))
        } else {
            ("unary", output_type.clone())
        };
        push(
            out,
            format_args!(
                "///
                /// `within` is the whole call's deadline; `None` waits for as long as the connection lives.
                pub async fn {name}(&self, request: &{input_type}, within: impl Into<Option<std::time::Duration>>)
                    -> Result<{answer}, crate::grpc::Status> {{
                    self.0.{kind}(\"/{full_name}/{proto_name}\", request, within.into()).await
                }}"
            ),
        );
    }
    push(out, format_args!("}}"));
}

fn push_comments(comments: &Comments, out: &mut String) {
    comments.append_with_indent(0, out);
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a String does not fail");
    out.push('\n');
}
