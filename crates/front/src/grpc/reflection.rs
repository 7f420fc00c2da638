//! gRPC reflection (v1): what `grpcurl` and the like ask for.

use leasehold_wire::proto::DESCRIPTORS;
use tonic_reflection::server::v1::{ServerReflection, ServerReflectionServer};

use crate::bounds;

/// Reflection that lists these services and health, and nothing else: a port does not tell of what it doesn't offer.
pub(super) fn reflection_server(services: &[&str]) -> ServerReflectionServer<impl ServerReflection> {
    let mut builder = tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(DESCRIPTORS)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
        .with_service_name("grpc.health.v1.Health");
    for service in services {
        builder = builder.with_service_name(*service);
    }
    let server = builder.build_v1().expect("the descriptors come from our own compiled files");
    server.max_decoding_message_size(bounds::MESSAGE_BYTES_MAX)
}
