// Starts the page: what the policy of the HTML asks for, then language, then the app.
import { render } from 'preact';
import { App } from './app';
import { languageReady } from './i18n';
import { applyTheme } from './settings';
import { start } from './session';

// xterm makes <style> elements and takes no nonce: each gets it when it is made, later is too late.
const nonce = document.querySelector<HTMLMetaElement>('meta[name=nonce]')?.nonce ?? '';
const create = document.createElement.bind(document) as (name: string, options?: ElementCreationOptions) => HTMLElement;
document.createElement = ((name: string, options?: ElementCreationOptions) => {
  const element = create(name, options);
  if (name.toLowerCase() === 'style') element.setAttribute('nonce', nonce);
  return element;
}) as typeof document.createElement;

// It also sets style attributes, which the policy refuses; the same text through the CSSOM is allowed.
const setAttribute = Element.prototype.setAttribute;
Element.prototype.setAttribute = function (name: string, value: string) {
  if (name === 'style' && this instanceof HTMLElement) this.style.cssText = value;
  else setAttribute.call(this, name, value);
};

applyTheme();
void start();
void languageReady.then(() => render(<App />, document.getElementById('app')!));
