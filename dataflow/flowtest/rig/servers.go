package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Servers are one server of each kind, for all tests of a run.
type Servers struct {
	// Env names them as the package comment says: NAME=VALUE.
	Env []string

	stop []func()
}

// StartServers starts them in an empty folder, side by side, and returns when they
// serve, but for the schema registry: it takes longest, few ask for it, and these wait.
// What ./test/install has not fetched is an error, and then nothing is left running.
func StartServers(dir string) (*Servers, error) {
	python, err := installed("python", "bin", "python")
	if err != nil {
		return nil, fmt.Errorf("run ./test/install first: %w", err)
	}
	s := &Servers{Env: []string{"FRAZIL_TEST_READERS=" + python}}
	var mu sync.Mutex
	var errs []error
	var wg sync.WaitGroup
	for name, start := range map[string]func(dir string) (started, error){
		"kafka": startKafka, "iceberg": startIceberg, "postgres": startPostgres, "mariadb": startMariaDB, "registry": startRegistry,
	} {
		wg.Go(func() {
			sub := filepath.Join(dir, name)
			err := os.MkdirAll(sub, 0o700)
			var up started
			if err == nil {
				up, err = start(sub)
			}
			mu.Lock()
			defer mu.Unlock()
			s.Env = append(s.Env, up.env...)
			s.stop = append(s.stop, up.stop...)
			if err != nil {
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		s.Stop()
		return nil, err
	}
	slices.Sort(s.Env)
	return s, nil
}

// started is what runs, also beside an error.
type started struct {
	env  []string
	stop []func()
}

func startKafka(dir string) (started, error) {
	b, err := newBroker(dir)
	if err != nil {
		return started{}, err
	}
	return started{[]string{"FRAZIL_TEST_KAFKA=" + b.Addr}, []func(){b.Kill}}, nil
}

// startIceberg starts the S3 store and the catalogs over it.
func startIceberg(dir string) (started, error) {
	for _, sub := range []string{"s3", "rest"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return started{}, err
		}
	}
	weed, err := startSeaweed(filepath.Join(dir, "s3"))
	if err != nil {
		return started{}, err
	}
	catalog, rest, err := startREST(filepath.Join(dir, "rest"), weed.store)
	if err != nil {
		return started{stop: []func(){weed.process.stop}}, err
	}
	st, auth := weed.store, weed.catalog
	return started{[]string{
		fmt.Sprintf("FRAZIL_TEST_S3=%s,%s,%s,%s", st.Endpoint, st.AccessKey, st.SecretKey, st.Warehouse),
		fmt.Sprintf("FRAZIL_TEST_REST=%s,%s", catalog.URI, catalog.Warehouse),
		fmt.Sprintf("FRAZIL_TEST_REST_AUTH=%s,%s,%s", auth.URI, auth.Warehouse, auth.Credential),
	}, []func(){rest.stop, weed.process.stop}}, nil
}

// startPostgres needs no folder: it makes one that its user may enter.
func startPostgres(string) (started, error) {
	p, err := newPostgres(nil)
	if err != nil {
		return started{}, err
	}
	return started{[]string{"FRAZIL_TEST_POSTGRES=" + p.URL("postgres")}, []func(){p.end}}, nil
}

func startMariaDB(string) (started, error) {
	m, err := newMariaDB(nil)
	if err != nil {
		return started{}, err
	}
	return started{[]string{"FRAZIL_TEST_MARIADB=" + m.DSN("")}, []func(){m.end}}, nil
}

func startRegistry(dir string) (started, error) {
	r, err := newRegistry(dir)
	if err != nil {
		return started{}, err
	}
	if err := r.launch(); err != nil {
		return started{}, err
	}
	return started{[]string{"FRAZIL_TEST_REGISTRY=" + r.URL}, []func(){r.Kill}}, nil
}

// Stop ends all of them.
func (s *Servers) Stop() {
	var wg sync.WaitGroup
	for _, stop := range s.stop {
		wg.Go(stop)
	}
	wg.Wait()
	s.stop = nil
}
