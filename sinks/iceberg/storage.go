package iceberg

import (
	"context"
	"errors"
	"strings"
	"sync"

	"frazil/dataflow"

	"github.com/apache/iceberg-go/io/gocloud/s3"
	"github.com/apache/iceberg-go/utils"
)

// storeAttempts is how often a request to S3 is made, with growing waits of up to 20
// s between, before it counts as failed: enough for a store that asks to be spared,
// or restarts. AWS_MAX_ATTEMPTS sets it, too.
const storeAttempts = 8

// patience holds how a catalog's tables are reached in S3, made at first use.
type patience struct {
	once sync.Once
	ctx  func(context.Context) context.Context
	err  error
}

// patient lets what is done with ctx wait for a store in S3 as long as it should.
// Other stores have no use for it.
func (l *lake) patient(ctx context.Context) (context.Context, error) {
	l.patience.once.Do(func() {
		cfg, err := s3.ParseAWSConfig(context.WithoutCancel(ctx), l.s3)
		if err != nil {
			l.patience.err = err
			return
		}
		if cfg.RetryMaxAttempts == 0 {
			cfg.RetryMaxAttempts = storeAttempts
		}
		if cfg.HTTPClient == nil {
			cfg.HTTPClient = storeClient(storeStalls)
		}
		l.patience.ctx = func(ctx context.Context) context.Context { return utils.WithAwsConfig(ctx, cfg) }
	})
	if l.patience.err != nil {
		return nil, l.patience.err
	}
	return l.patience.ctx(ctx), nil
}

// noHelp are answers of a store that waiting does not change.
var noHelp = map[string]bool{
	"AccessDenied": true, "InvalidAccessKeyId": true, "SignatureDoesNotMatch": true, "NoSuchBucket": true, "InvalidBucketName": true,
	"PermanentRedirect": true, "AuthorizationHeaderMalformed": true, "AllAccessDisabled": true, "AccountProblem": true,
}

// unavailable marks the failure of a store elsewhere as its fault, which waiting
// heals, unless it has said that it does not.
func unavailable(path string, err error) error {
	if _, local := localPath(path); err == nil || local {
		return err
	}
	var said interface{ ErrorCode() string }
	if errors.As(err, &said) && noHelp[said.ErrorCode()] || strings.Contains(err.Error(), "StatusCode: 403") {
		return err
	}
	return dataflow.Unavailable(err)
}
