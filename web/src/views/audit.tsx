// Who did what to which box, as it happens.
import { t } from '../i18n';
import { Steps } from '../steps';
import { Head } from '../ui';

export default () => <div class="page"><Head title={t('audit.title')} /><Steps /></div>;
