//! Who is trusted on a connection of states: each side shows an Ed25519 key alone, without a
//! certificate (RFC 7250), and takes those that were named and no others. TLS 1.3 only, and every
//! connection begins from nothing: no tickets, no early data.

use std::fmt;
use std::sync::Arc;

use anyhow::Context as _;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct,
    DistinguishedName, Error, OtherError, PeerIncompatible, ServerConfig, ServerConnection,
    SignatureScheme, version,
};

use super::key::{PrivateKey, PublicKey};

/// What is spoken inside (RFC 7301).
const PROTOCOL: &[u8] = b"weir-sync/1";
/// TLS wants a name of a server, and nobody looks at it.
const NAME: &str = "weir-sync";

/// A key that was not named.
#[derive(Debug)]
pub(super) struct WrongKey(Option<PublicKey>);

impl fmt::Display for WrongKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(key) => write!(f, "its key is {key}, which --peer does not name"),
            None => f.write_str("its key is none of Ed25519, which --peer does not name"),
        }
    }
}

impl std::error::Error for WrongKey {}

impl WrongKey {
    /// Whether that is what an error of TLS says.
    pub(super) fn is(error: &Error) -> bool {
        let Error::InvalidCertificate(CertificateError::Other(OtherError(other))) = error else {
            return false;
        };
        other.is::<Self>()
    }
}

/// The keys that were named.
#[derive(Debug)]
struct Pinned {
    keys: Vec<PublicKey>,
    provider: Arc<CryptoProvider>,
}

impl Pinned {
    fn judge(&self, shown: &CertificateDer<'_>) -> Result<(), Error> {
        let key = PublicKey::of_spki(shown);
        if key.is_some_and(|key| self.keys.contains(&key)) {
            return Ok(());
        }
        let wrong = OtherError(Arc::new(WrongKey(key)));
        Err(Error::InvalidCertificate(CertificateError::Other(wrong)))
    }

    fn verify(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(shown.as_ref());
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signed, algorithms)
    }
}

/// What nobody gets to, as only TLS 1.3 is offered.
fn too_old() -> Error {
    PeerIncompatible::Tls12NotOfferedOrEnabled.into()
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.judge(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.judge(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// This firewall's key in TLS's form, and the trust in others'.
fn parts(key: &PrivateKey, peers: Vec<PublicKey>) -> anyhow::Result<(Arc<CertifiedKey>, Pinned)> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let private = PrivateKeyDer::Pkcs8(key.pkcs8());
    let signer = provider.key_provider.load_private_key(private).context("the key is of no use")?;
    let shown = vec![CertificateDer::from(key.public.spki())];
    Ok((Arc::new(CertifiedKey::new(shown, signer)), Pinned { keys: peers, provider }))
}

/// The side that connects.
pub(super) struct Caller(Arc<ClientConfig>);

impl Caller {
    pub(super) fn new(key: &PrivateKey, peers: Vec<PublicKey>) -> anyhow::Result<Self> {
        let (shown, pinned) = parts(key, peers)?;
        let mut config = ClientConfig::builder_with_provider(Arc::clone(&pinned.provider))
            .with_protocol_versions(&[&version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(pinned))
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(shown)));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Ok(Self(Arc::new(config)))
    }

    pub(super) fn begin(&self) -> anyhow::Result<Connection> {
        let name = ServerName::try_from(NAME).context("no name of a server")?;
        Ok(ClientConnection::new(Arc::clone(&self.0), name)?.into())
    }
}

/// The side that is connected to.
pub(super) struct Listener(Arc<ServerConfig>);

impl Listener {
    pub(super) fn new(key: &PrivateKey, peers: Vec<PublicKey>) -> anyhow::Result<Self> {
        let (shown, pinned) = parts(key, peers)?;
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&pinned.provider))
            .with_protocol_versions(&[&version::TLS13])?
            .with_client_cert_verifier(Arc::new(pinned))
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(shown)));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self(Arc::new(config)))
    }

    pub(super) fn begin(&self) -> anyhow::Result<Connection> {
        Ok(ServerConnection::new(Arc::clone(&self.0))?.into())
    }
}

/// Whose connection it is whose handshake is done; none if it does not speak what it should.
pub(super) fn peer(connection: &Connection) -> Option<PublicKey> {
    if connection.alpn_protocol() != Some(PROTOCOL) {
        return None;
    }
    connection.peer_certificates()?.first().and_then(|shown| PublicKey::of_spki(shown))
}
