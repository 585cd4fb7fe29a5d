package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// writeKeys fills a directory with the secrets of one plane:
//
//	sa.key                        signs and verifies service account tokens
//	apiserver.crt, apiserver.key  the API server's certificate for loopback
//	ca.crt                        what clients verify that certificate with
//	token                         the administrator's bearer token
//	tokens.csv                    the same as the API server wants it
func writeKeys(args []string) int {
	if len(args) != 2 {
		return usage("keys needs one argument, the directory to write to")
	}
	files, err := newKeys()
	if err != nil {
		return fail("keys", err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(args[1], name), content, 0o600); err != nil {
			return fail("keys", err)
		}
	}
	return 0
}

func newKeys() (map[string][]byte, error) {
	accounts, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return nil, err
	}
	loopback := []net.IP{net.IPv4(127, 0, 0, 1)}
	serving, key, err := cert.GenerateSelfSignedCertKey("localhost", loopback, nil)
	if err != nil {
		return nil, err
	}
	authority, err := lastCertificate(serving)
	if err != nil {
		return nil, err
	}
	token := rand.Text()
	return map[string][]byte{
		"sa.key":        accounts,
		"apiserver.crt": serving,
		"apiserver.key": key,
		"ca.crt":        authority,
		"token":         []byte(token),
		"tokens.csv":    fmt.Appendf(nil, "%s,admin,admin,system:masters\n", token),
	}, nil
}

// lastCertificate returns the end of a chain, its authority.
func lastCertificate(chain []byte) ([]byte, error) {
	certs, err := cert.ParseCertsPEM(chain)
	if err != nil {
		return nil, err
	}
	if len(certs) < 2 {
		return nil, errors.New("the serving certificate came without its authority")
	}
	return cert.EncodeCertificates(certs[len(certs)-1])
}
