//! TLS of the server: its certificate, and the tickets with which clients resume sessions.
//!
//! All workers have the same certificate and the same key of tickets, so that a session that began
//! at one is resumed at any.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{CertificateParams, DnType, KeyPair};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ProducesTickets, ServerConfig, ServerConnection};
use serde::{Deserialize, Serialize};

use crate::tls::{PROTOCOL, Session, provider};

/// How long a ticket may be used, seconds: the longest that a client may keep it (RFC 8446 section
/// 4.6.1). The key lives no longer than the server.
const LIFETIME_S: u32 = 7 * 24 * 3600;
/// What a client of HTTP/1.0 may offer, as curl does.
const OLD_PROTOCOL: &[u8] = b"http/1.0";
/// Bytes of the key that tickets are encrypted with.
const TICKET_KEY_BYTES: usize = 32;

/// The certificate to serve with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Certificate {
    /// One that is made at the start for the addresses, and signed by itself.
    SelfSigned,
    /// A chain and its key, PEM.
    Files { certificate: PathBuf, key: PathBuf },
}

/// Why there can be no TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    #[error("cannot read a certificate from {path}: {source}")]
    Certificate { path: String, source: pem::Error },
    #[error("cannot read a private key from {path}: {source}")]
    Key { path: String, source: pem::Error },
    #[error("the certificate and its key do not serve: {0}")]
    Pair(#[from] rustls::Error),
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    #[error("the system has no random numbers")]
    Random,
}

/// What every worker serves with. It has no Debug: keys stand in no message.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Identity {
    /// DER, the server's first.
    certificates: Vec<Vec<u8>>,
    /// DER of any kind.
    key: Vec<u8>,
    ticket_key: [u8; TICKET_KEY_BYTES],
}

impl Identity {
    /// Reads or makes it; what does not fit together is refused here.
    pub(super) fn new(certificate: &Certificate, listen: &[SocketAddr]) -> Result<Self, TlsError> {
        let (certificates, key) = match certificate {
            Certificate::SelfSigned => make(listen)?,
            Certificate::Files { certificate, key } => read(certificate, key)?,
        };
        let mut ticket_key = [0; TICKET_KEY_BYTES];
        SystemRandom::new().fill(&mut ticket_key).map_err(|_| TlsError::Random)?;
        let identity = Self { certificates, key, ticket_key };
        Acceptor::new(&identity)?;
        Ok(identity)
    }
}

/// Chain and key, DER.
type Pair = (Vec<Vec<u8>>, Vec<u8>);

fn read(certificate: &Path, key: &Path) -> Result<Pair, TlsError> {
    let failed = |source| TlsError::Certificate { path: certificate.display().to_string(), source };
    let chain = CertificateDer::pem_file_iter(certificate).map_err(failed)?;
    let chain = chain.map(|one| one.map(|one| one.to_vec())).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(failed)?;
    if chain.is_empty() {
        return Err(failed(pem::Error::NoItemsFound));
    }
    let key = PrivateKeyDer::from_pem_file(key)
        .map_err(|source| TlsError::Key { path: key.display().to_string(), source })?;
    Ok((chain, key.secret_der().to_vec()))
}

fn make(listen: &[SocketAddr]) -> Result<Pair, TlsError> {
    let mut names = Vec::new();
    for address in listen {
        if address.ip().is_unspecified() {
            names.extend(["127.0.0.1", "::1"].map(str::to_owned));
        } else {
            names.push(address.ip().to_string());
        }
    }
    names.push("localhost".to_owned());
    names.sort();
    names.dedup();
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "weir http serve");
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok((vec![certificate.der().to_vec()], key.serialize_der()))
}

/// Begins TLS on connections that were accepted.
pub(super) struct Acceptor(Arc<ServerConfig>);

impl Acceptor {
    pub(super) fn new(identity: &Identity) -> Result<Self, rustls::Error> {
        let chain = identity.certificates.iter().cloned().map(CertificateDer::from).collect();
        let key = PrivateKeyDer::try_from(identity.key.clone())
            .map_err(|reason| rustls::Error::General(reason.into()))?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![PROTOCOL.to_vec(), OLD_PROTOCOL.to_vec()];
        config.ticketer = Arc::new(Tickets::new(&identity.ticket_key)?);
        Ok(Self(Arc::new(config)))
    }

    pub(super) fn begin(&self) -> Result<Session, rustls::Error> {
        ServerConnection::new(Arc::clone(&self.0)).map(Session::new)
    }
}

/// Tickets that any worker of the server can read: a nonce, and what is encrypted with it.
#[derive(Debug)]
struct Tickets {
    key: LessSafeKey,
    random: SystemRandom,
}

impl Tickets {
    fn new(key: &[u8; TICKET_KEY_BYTES]) -> Result<Self, rustls::Error> {
        let key = UnboundKey::new(&AES_256_GCM, key);
        let key = key.map_err(|_| rustls::Error::General("no key for tickets".into()))?;
        Ok(Self { key: LessSafeKey::new(key), random: SystemRandom::new() })
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME_S
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).ok()?;
        let mut sealed = plain.to_vec();
        let unique = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(unique, Aad::empty(), &mut sealed).ok()?;
        Some([&nonce[..], &sealed].concat())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = cipher.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut sealed = sealed.to_vec();
        let plain = self.key.open_in_place(nonce, Aad::empty(), &mut sealed).ok()?;
        Some(plain.to_vec())
    }
}

#[cfg(test)]
mod tests;
