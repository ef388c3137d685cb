package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Store is an S3 store.
type Store struct {
	Endpoint  string // http://HOST:PORT
	AccessKey string
	SecretKey string
	Warehouse string // s3://BUCKET/PREFIX, which may be written to
}

// Catalog is an Iceberg REST catalog with the store that its tables are in.
type Catalog struct {
	URI        string
	Warehouse  string
	Credential string // CLIENT_ID:CLIENT_SECRET; empty where it asks for none
	Store      Store
}

// S3 returns an S3 store. Other tests may use it too.
func S3(t testing.TB) Store {
	t.Helper()
	parts, err := named("FRAZIL_TEST_S3", 4)
	if err != nil {
		t.Fatal(err)
	}
	if parts != nil {
		return Store{parts[0], parts[1], parts[2], parts[3]}
	}
	return ownSeaweed(t).store
}

// REST returns a REST catalog that asks for no login, over an S3 store. Other
// tests may use it too: name namespaces so that they are yours alone.
func REST(t testing.TB) Catalog {
	t.Helper()
	parts, err := named("FRAZIL_TEST_REST", 2)
	if err != nil {
		t.Fatal(err)
	}
	store := S3(t)
	if parts != nil {
		return Catalog{URI: parts[0], Warehouse: parts[1], Store: store}
	}
	if _, err := installed("rest", "RestServer.class"); err != nil {
		missing(t, "Iceberg REST catalog", "run ./test/install, or set FRAZIL_TEST_REST to URI,WAREHOUSE")
	}
	c, p, err := startREST(t.TempDir(), store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	return c
}

// AuthREST returns a REST catalog that asks for an OAuth2 login, of another
// make than REST's, over an S3 store.
func AuthREST(t testing.TB) Catalog {
	t.Helper()
	parts, err := named("FRAZIL_TEST_REST_AUTH", 3)
	if err != nil {
		t.Fatal(err)
	}
	if parts != nil {
		return Catalog{URI: parts[0], Warehouse: parts[1], Credential: parts[2], Store: S3(t)}
	}
	return ownSeaweed(t).catalog
}

// seaweed is a SeaweedFS server: an S3 store, and a REST catalog beside it.
type seaweed struct {
	store   Store
	catalog Catalog
	process *process
}

func ownSeaweed(t testing.TB) *seaweed {
	t.Helper()
	if _, err := installed("python", "bin", "weed"); err != nil {
		missing(t, "S3 store", "run ./test/install, or set FRAZIL_TEST_S3 to ENDPOINT,ACCESS_KEY,SECRET_KEY,s3://BUCKET/PREFIX")
	}
	s, err := startSeaweed(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.process.stop)
	return s
}

const seaweedUsers = `{"identities":[{"name":"frazil","credentials":[{"accessKey":"frazil","secretKey":"frazil-secret"}],"actions":["Admin","Read","Write","List","Tagging"]}]}`

func startSeaweed(dir string) (*seaweed, error) {
	weed, err := installed("python", "bin", "weed")
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "s3.json"), []byte(seaweedUsers), 0o600); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o700); err != nil {
		return nil, err
	}
	flags := []string{"s3.port", "s3.port.iceberg", "s3.port.grpc", "master.port", "master.port.grpc", "filer.port", "filer.port.grpc",
		"volume.port", "volume.port.grpc", "admin.port"}
	ports, err := freePorts(len(flags))
	if err != nil {
		return nil, err
	}
	args := []string{"-logtostderr=true", "mini", "-dir=data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3.config=s3.json",
		"-s3.port.lance=0", "-webdav=false", "-admin.ui=false", "-bucket=bkt", "-tableBucket=ice"}
	for i, f := range flags {
		args = append(args, fmt.Sprintf("-%s=%d", f, ports[i]))
	}
	p, err := launch("the S3 store", dir, filepath.Join(dir, "log"), weed, args...)
	if err != nil {
		return nil, err
	}
	s := &seaweed{process: p}
	s.store = Store{Endpoint: "http://" + addr(ports[0]), AccessKey: "frazil", SecretKey: "frazil-secret", Warehouse: "s3://bkt/t"}
	s.catalog = Catalog{URI: "http://" + addr(ports[1]), Warehouse: "s3://ice", Credential: "frazil:frazil-secret", Store: s.store}
	healthy, knows := answers(s.store.Endpoint+"/healthz"), holdsBucket(s.catalog, "ice")
	if err := p.wait(func() bool { return healthy() && knows() }); err != nil {
		p.kill()
		return nil, err
	}
	return s, nil
}

// holdsBucket says whether the catalog answers for a table bucket: it does before
// the bucket has been made, with an error.
func holdsBucket(c Catalog, bucket string) func() bool {
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	id, secret, _ := strings.Cut(c.Credential, ":")
	return func() bool {
		resp, err := client.PostForm(c.URI+"/v1/oauth/tokens", url.Values{"grant_type": {"client_credentials"}, "client_id": {id}, "client_secret": {secret}})
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		var token struct {
			Access string `json:"access_token"`
		}
		if json.NewDecoder(resp.Body).Decode(&token) != nil {
			return false
		}
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, c.URI+"/v1/"+bucket+"/namespaces", nil)
		if err != nil {
			return false
		}
		req.Header.Set("Authorization", "Bearer "+token.Access)
		if resp, err = client.Do(req); err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	}
}

// startREST starts Iceberg's own test server, with its catalog in a SQLite file.
func startREST(dir string, store Store) (Catalog, *process, error) {
	home, err := installed("rest")
	if err != nil {
		return Catalog{}, nil, err
	}
	ports, err := freePorts(1)
	if err != nil {
		return Catalog{}, nil, err
	}
	c := Catalog{URI: "http://" + addr(ports[0]), Warehouse: store.Warehouse + "/rest", Store: store}
	p, err := launch("the REST catalog", dir, filepath.Join(dir, "log"), "java", "-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", home+":"+filepath.Join(home, "lib", "*"), "RestServer", fmt.Sprint(ports[0]),
		"uri=jdbc:sqlite:"+filepath.Join(dir, "rest.db"), "warehouse="+c.Warehouse, "io-impl=org.apache.iceberg.aws.s3.S3FileIO",
		"s3.endpoint="+store.Endpoint, "s3.path-style-access=true", "s3.access-key-id="+store.AccessKey, "s3.secret-access-key="+store.SecretKey,
		"client.region=us-east-1")
	if err != nil {
		return Catalog{}, nil, err
	}
	if err := p.wait(answers(c.URI + "/v1/config")); err != nil {
		p.kill()
		return Catalog{}, nil, err
	}
	return c, p, nil
}
