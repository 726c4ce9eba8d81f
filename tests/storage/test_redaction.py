"""No secret in what is said or logged."""

from __future__ import annotations

import pytest

from storage.errors import InputError
from storage.redaction import redacted

SECRET = "hunter2"
TEXTS = {
    "user and password": ("s3://me:hunter2@bucket/pool", "s3://***@bucket/pool"),
    "password with a slash": ("s3://me:a/hunter2@bucket/pool", "s3://***@bucket/pool"),
    "scheduler": ("no cluster at tls://:hunter2@host:8786; see", "tls://***@host:8786; see"),
    "query string": ("https://host/pool.csv?sig=hunter2&x=1 is empty", "pool.csv is empty"),
    "fragment": ("https://host/pool.csv#hunter2", "https://host/pool.csv"),
    "bearer": ("refused: Authorization: Bearer hunter2hunter2", "refused"),
    "setting": ("api_key=hunter2 was refused", "was refused"),
    "environment style": ("AWS_SECRET_ACCESS_KEY=hunter2", "AWS_SECRET_ACCESS_KEY=***"),
    "storage options": ("{'key': 'hunter2', 'secret': 'hunter2', 'anon': False}", "'anon': False}"),
    "JSON": ('{"account_key": "hunter2 hunter2", "account_name": "me"}', '"account_name": "me"}'),
    "connection string": ("AccountKey=hunter2;EndpointSuffix=x", ";EndpointSuffix=x"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_secrets_are_taken_out_and_the_rest_stays(case: str) -> None:
    text, rest = TEXTS[case]
    assert SECRET not in redacted(text)
    assert rest in redacted(text)


@pytest.mark.parametrize(
    "text",
    [
        "/data/user@host/pool.csv: column 'token' has 3 values",
        "unexpected NoCredentialsError: Unable to locate credentials",
        "neighbors block-00017: 4,096 rows but k=5,000; lower k",
        "s3://bucket/pool/2026 is finished and whole: nothing to do",
        "Dask dashboard: http://127.0.0.1:8787/status",
        "look: 'n_tokens': text that can be read as numbers; give --parse n_tokens=thousands",
        """--parse 'token day=%d.%m.%Y' --parse 'api key=percent'""",
        'parse = ["n_tokens=thousands", "token_day=%Y-%m-%d"]',
        "  'password': 11.8% wrong (95 % interval 6.7% to 19.1%), p0 0.087",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redacted(text) == text


def test_values_of_secret_environment_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_PASSWORD", "correct horse")
    assert redacted("denied for correct horse") == "denied for ***"


def test_errors_are_redacted() -> None:
    assert SECRET not in str(InputError("s3://me:hunter2@bucket: no such file"))
