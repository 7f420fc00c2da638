//! Who is calling: the client's address from the peer and the forwarding headers of proxies that we trust.
