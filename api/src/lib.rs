//! The gRPC contracts of Latchkey and gRPC on smol.
