//! Protobuf and gRPC types, and checked conversions both ways. The only crate that knows prost and tonic types.
