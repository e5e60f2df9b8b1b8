#!/usr/bin/env python3
"""make.py - signatures by the reference implementation of OpenSSF Model Signing, and zt's signatures checked by it.

    pip install model-signing==1.1.1 pyopenssl     (OpenSSL's command makes keys and certificates)
    tests/sign/make.py [DIRECTORY]      (default: tests/sign/reference: keys, a model, signatures; ECDSA draws, so all are new)
    tests/sign/make.py --check          (with zt-convert in PATH: what zt signs is verified here, and the other way round)

What tests/tools/zt-convert-sign.bats needs of it is in tests/sign/reference, so that the tests run without these packages.
"""
import json, os, pathlib, struct, subprocess, sys, tempfile

import model_signing
from model_signing import hashing, signing, verifying

HERE = os.path.dirname(os.path.abspath(__file__))
CURVES = {"p256": "prime256v1", "p384": "secp384r1", "p521": "secp521r1"}


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def make_keys(to):
    for name, curve in CURVES.items():
        openssl("ecparam", "-name", curve, "-genkey", "-noout", "-out", f"{to}/{name}.pem")
        openssl("pkey", "-in", f"{to}/{name}.pem", "-pubout", "-out", f"{to}/{name}.pub")
    openssl("genpkey", "-algorithm", "ed25519", "-out", f"{to}/ed25519.pem")
    openssl("pkey", "-in", f"{to}/ed25519.pem", "-pubout", "-out", f"{to}/ed25519.pub")
    openssl("pkcs8", "-topk8", "-in", f"{to}/p256.pem", "-passout", "pass:open sesame", "-out", f"{to}/encrypted.pem")
    openssl("genpkey", "-algorithm", "rsa", "-pkeyopt", "rsa_keygen_bits:2048", "-out", f"{to}/rsa.pem")


def make_certificates(to):
    """root.crt signs middle.crt, which signs signer.crt (for signatures) and server.crt (not for them)."""
    uses = {"root": "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign",
            "middle": "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign",
            "signer": "keyUsage=critical,digitalSignature", "server": "extendedKeyUsage=serverAuth"}
    by = {"root": None, "middle": "root", "signer": "middle", "server": "middle"}
    with tempfile.TemporaryDirectory() as work:
        for name, use in uses.items():
            key = f"{to}/signer.pem" if name in ("signer", "server") else f"{work}/{name}.pem"
            if not os.path.exists(key):
                openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
            pathlib.Path(f"{work}/ext").write_text(use + "\n")
            openssl("req", "-new", "-key", key, "-subj", f"/CN=zt test {name}", "-out", f"{work}/{name}.csr")
            issuer = ["-CA", f"{to}/{by[name]}.crt", "-CAkey", f"{work}/{by[name]}.pem", "-CAcreateserial"] if by[name] else ["-signkey", key]
            openssl("x509", "-req", "-in", f"{work}/{name}.csr", *issuer, "-days", "2", "-extfile", f"{work}/ext", "-out", f"{to}/{name}.crt")
        os.path.exists(f"{to}/root.srl") and os.remove(f"{to}/root.srl")
        os.path.exists(f"{to}/middle.srl") and os.remove(f"{to}/middle.srl")


def make_model(to):
    os.makedirs(f"{to}/model/sub", exist_ok=True)
    head = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    files = {"model.safetensors": struct.pack("<Q", len(head)) + head + struct.pack("<4f", 1, 2, 3, 4), "config.json": b"{}\n",
             "empty": b"", "with a space": b"space\n", "sub/tokenizer.json": b'{"model": {}}\n', "sub-b": b"sorted behind sub/\n",
             "Gr\u00fc\u00dfe": b"UTF-8\n"}
    for name, content in files.items():
        pathlib.Path(f"{to}/model/{name}").write_bytes(content)
    pathlib.Path(f"{to}/receipt.json").write_text('{"schema":"zt.receipt/1","seed":"5","tokens":[1,2,3]}\n')


def sign(to, model, name, signer, config=None):
    signer(signing.Config()).set_hashing_config(config or hashing.Config()).sign(f"{to}/{model}", f"{to}/{name}.sig")


def make_signatures(to):
    def key(name):
        return lambda config: config.use_elliptic_key_signer(private_key=f"{to}/{name}.pem")

    def certificate(name):
        return lambda config: config.use_certificate_signer(
            private_key=f"{to}/signer.pem", signing_certificate=f"{to}/{name}.crt", certificate_chain=[f"{to}/middle.crt"])

    for curve in CURVES:
        sign(to, "model", f"folder-{curve}", key(curve))
        sign(to, "model/model.safetensors", f"file-{curve}", key(curve))
    sign(to, "receipt.json", "receipt", key("p256"))
    sign(to, "model", "certificate", certificate("signer"))
    sign(to, "model", "server", certificate("server"))
    sign(to, "model", "without-config", key("p256"), hashing.Config().set_ignored_paths(paths=["config.json", "sub"]))
    sign(to, "model", "with-git", key("p256"), hashing.Config().set_ignored_paths(paths=[], ignore_git_paths=False))
    sign(to, "model", "symlinks", key("p256"), hashing.Config().use_file_serialization(allow_symlinks=True).set_allow_symlinks(True))
    sign(to, "model", "shards", key("p256"), hashing.Config().use_shard_serialization(shard_size=10))
    for other in ("blake2", "blake3"):
        sign(to, "model", other, key("p256"), hashing.Config().use_file_serialization(hashing_algorithm=other))


def is_verified(model, signature, key):
    try:
        verifying.Config().use_elliptic_key_verifier(public_key=key).verify(pathlib.Path(model), signature)
        return True
    except Exception as error:
        print(f"{signature}: {error}", file=sys.stderr)
        return False


def check():
    """Each curve, a file and a directory: zt's signatures here, those made here there; ECDSA draws, so these are others each time."""
    with tempfile.TemporaryDirectory() as to:
        make_keys(to)
        make_certificates(to)
        make_model(to)
        make_signatures(to)
        count = 0
        for curve in CURVES:
            for model, ours in (("model", "folder"), ("model/model.safetensors", "file"), ("receipt.json", "receipt")):
                subprocess.run(["zt-convert", "--sign", f"{to}/{curve}.pem", "-o", f"{to}/zt.sig", "-f", f"{to}/{model}"], check=True)
                if not is_verified(f"{to}/{model}", f"{to}/zt.sig", f"{to}/{curve}.pub"):
                    sys.exit(f"zt's signature of {model} by {curve} is refused")
                here = f"{to}/{ours}-{curve}.sig" if ours != "receipt" else f"{to}/receipt.sig"
                public = curve if ours != "receipt" else "p256"
                subprocess.run(["zt-convert", "--verify-signature", here, "--public-key", f"{to}/{public}.pub", f"{to}/{model}"], check=True)
                count += 2
        print(f"{count} signatures verified, model-signing {model_signing.__version__}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        check()
    else:
        to = sys.argv[1] if len(sys.argv) > 1 else f"{HERE}/reference"
        os.makedirs(to, exist_ok=True)
        make_keys(to), make_certificates(to), make_model(to), make_signatures(to)
