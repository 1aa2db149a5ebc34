//! The door over a real port, called as etcd's clients call it.
