//! What watches are told, without a transport.
